# weir: one Makefile for the whole tree, for GNU make 4.3 or newer.
#
#	make help			the targets
#	make CONFIG=debug		release (the default) or debug
#	make SAN=address,undefined	with sanitizers; also SAN=thread
#	make CC=clang			another compiler
#	make JEMALLOC_PREFIX=DIR	weir's own data from this jemalloc
#	make DEPS=1			install missing packages, as run and test do
#	make DEPS=0			do not look for missing packages
#	make VIEWER=0			without the page of `weir view`
#	make PYTHON=python3.12		another Python; PYTHON= leaves its package out
#	make -j1			one job at a time (default: one a processor)
#	make V=1			print whole command lines
#
# Each combination has a folder of its own, build/NAME; `make show-build` tells
# which. Sources are found by folder: a new .c file needs no line here, but
# programs of tests/ are one for each X_test.c, and what is in tools/weir is
# one program.

MAKEFLAGS += --no-builtin-rules
# A -j of the command line comes before this one; a make within a make shares
# the jobs of the first.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 1)
endif
.SUFFIXES:
.DELETE_ON_ERROR:
.SECONDARY:
SHELL := /bin/bash
.DEFAULT_GOAL := build
comma := ,
empty :=
space := $(empty) $(empty)

# ------------------------------------------------------------------ choices

VERSION := 0.1.0
SOVERSION := 0

ifeq ($(origin CC),default)
CC := gcc
endif
ifeq ($(origin CXX),default)
CXX := $(if $(findstring clang,$(CC)),clang++,g++)
endif
# The compiler's own, which are for the machine that it compiles for.
ifeq ($(origin AR),default)
AR := $(shell $(CC) -print-prog-name=ar)
endif
OBJCOPY ?= $(shell $(CC) -print-prog-name=objcopy)
SAN ?=
COVER ?=
CONFIG ?= $(if $(SAN)$(COVER),debug,release)
JEMALLOC_PREFIX ?=
# 1: install what is missing, with root and the network, as only these goals do.
# 0: do not look. Else: build with what is there, and say what is missing.
DEPS ?= $(if $(filter run test deps,$(MAKECMDGOALS)),1,say)
# The levels of scripts/deps that `make deps` installs.
LEVELS ?= build command test page python pytest
VIEWER ?= 1
# Warnings are errors where weir is worked on, and never for those who build it.
WERROR ?=
# The oldest glibc that what is built runs with, of 2.GLIBC; empty: that of this
# machine.
GLIBC ?= 28
# The Python that the package is built and tested with: the system's, whose
# packages scripts/deps can install. A sanitizer's runtime is in no Python.
PYTHON ?= $(if $(SAN)$(COVER),,$(firstword $(wildcard /usr/bin/python3) python3))

DESTDIR ?=
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
INCLUDEDIR ?= $(PREFIX)/include
LIBDIR ?= $(PREFIX)/lib
PYTHONDIR ?= $(LIBDIR)/weir/python
MANDIR ?= $(PREFIX)/share/man
DOCDIR ?= $(PREFIX)/share/doc/weir
BASHCOMPDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHCOMPDIR ?= $(PREFIX)/share/zsh/site-functions
FISHCOMPDIR ?= $(PREFIX)/share/fish/vendor_completions.d

# How long `make fuzz` spends on each program, perhaps a fraction; FUZZ_SECONDS
# is the same in seconds.
MINUTES ?= 1
FUZZ_SECONDS ?= $(shell awk -v m='$(MINUTES)' 'BEGIN { printf "%d", m * 60 }')

# The parts that a build without their packages leaves out.
lacks = $(shell [ -e build/deps-$(1) ] || scripts/deps --list $(1) >/dev/null || echo 1)
lacks_command := $(if $(filter say,$(DEPS)),$(call lacks,command))

san_name := $(subst address-undefined,asan,$(subst $(comma),-,$(SAN)))
san_name := $(subst fuzzer-no-link,fuzz,$(subst thread,tsan,$(san_name)))
B := build/$(subst $(space),-,$(strip $(CONFIG) \
	$(filter-out gcc cc,$(notdir $(firstword $(CC)))) $(san_name) \
	$(if $(JEMALLOC_PREFIX),jemalloc) \
	$(if $(COVER),cover)))

# -------------------------------------------------------------------- flags

ifeq ($(CONFIG),release)
opt := -O2 -g
else ifeq ($(CONFIG),debug)
opt := -O1 -g -DWEIR_DEBUG=1
else
$(error CONFIG is release or debug, not '$(CONFIG)')
endif

werror := $(if $(filter-out 0,$(WERROR)),-Werror)
CFLAGS ?=
CPPFLAGS ?=
LDFLAGS ?=
san_flags := $(if $(SAN),-fsanitize=$(SAN) -fno-sanitize-recover=all \
	-fno-omit-frame-pointer) $(if $(COVER),--coverage)
cppflags = -D_GNU_SOURCE -I. -Iinclude $(je_cppflags) \
	-isystem build/include $(CPPFLAGS)
cflags = -std=c11 -Wall -Wextra $(werror) -fvisibility=hidden -fPIC -pthread \
	$(opt) $(san_flags) $(cppflags) $(CFLAGS)
# A library's thread-local data is found without a call where the compiler
# knows how; the cached pair is a few nanoseconds in all.
tls_flags := $(if $(SAN),,$(shell echo | \
	$(CC) -Werror -mtls-dialect=gnu2 -x c -c -o /dev/null - 2>/dev/null && \
	echo -mtls-dialect=gnu2))
# Sums that are changed one by one are read one by one: what is read at once
# waits until all that was written of it has left the processor's store buffer.
# A line that is fetched to be written is fetched once.
fetch_flags := $(shell echo | $(CC) -Werror -mprfchw -x c -c -o /dev/null - \
	2>/dev/null && echo -mprfchw)
# Nothing of a static library shows outside of what it was linked into, but
# clang's sanitizers, whose malloc the C library must find.
ldflags = -pthread $(san_flags) $(if $(SAN),,-Wl$(comma)--exclude-libs$(comma)ALL) \
	$(LDFLAGS)
# In a sanitized build the runtime is in the program, not in the libraries.
so_ldflags = -shared $(ldflags) $(if $(SAN),,-Wl,-z,defs)
version_script = $(addprefix -Wl$(comma)--version-script=,$(1))

# Programs and libraries run with glibc 2.$(GLIBC) and newer, whatever they are
# linked with. A sanitizer's runtime needs its machine's glibc.
glibc_stub := $(if $(SAN)$(COVER),,$(if $(GLIBC),$(if $(findstring /,$(shell \
	$(CC) -print-file-name=libpthread.so.0 2>/dev/null)),$(B)/glibc-2.$(GLIBC))))
glibc_link := $(if $(glibc_stub),$(glibc_stub)/stat.o -Wl$(comma)--push-state \
	-Wl$(comma)--no-as-needed $(glibc_stub)/libpthread.so.0 \
	-l:libdl.so.2 -l:librt.so.1 -Wl$(comma)--pop-state)

# The first of these libraries that the linker finds, as -l:NAME.
first_archive = $(addprefix -l:,$(firstword $(foreach a,$(1),\
	$(if $(findstring /,$(shell $(CC) -print-file-name=$(a))),$(a)))))
libs := $(glibc_link) -ldl -lm
tool_libs := -l:libjansson.a -l:liblzma.a -l:libz.a $(libs)
# The command alone names functions, by these libraries (docs/adr/0014):
# tools/weir/reading/name_frames.c says why the call is wrapped.
name_libs := -l:libbacktrace.a -l:libsupc++.a -Wl,--wrap=dl_iterate_phdr
test_libs = $(call first_archive,libcheck_pic.a libcheck.a) \
	$(call first_archive,libsubunit.a) -lrt $(tool_libs)

# weir's own data comes from malloc(), or from an arena of this jemalloc
# (docs/adr/0015).
ifeq ($(JEMALLOC_PREFIX),)
je_cppflags := -DWEIR_NO_JEMALLOC=1
je_lib :=
else
je_lib := $(firstword $(wildcard $(JEMALLOC_PREFIX)/lib/libjemalloc_pic.a \
	$(JEMALLOC_PREFIX)/lib/libjemalloc.a))
je_cppflags := -isystem $(JEMALLOC_PREFIX)/include
je_ready := $(B)/jemalloc-checked
endif

# The weir command finds names of addresses with libbacktrace, which comes with
# gcc. Its header lies among gcc's own, which clang must not meet, so it is
# copied. Names of C++ are demangled by libsupc++.
backtrace_lib = $(shell $(CC) -print-file-name=libbacktrace.a)
backtrace_ready := build/include/backtrace.h

# The stamp of a level of scripts/deps; its rule installs what is missing, or
# says what that is.
deps = $(if $(filter 0,$(DEPS)),,build/deps-$(1))

# The CUDA toolkit, where there is one: its headers check ours, and its
# compiler builds the examples as a user would.
CUDA_HOME ?= $(firstword $(patsubst %/bin/nvcc,%,$(shell command -v nvcc)) \
	$(patsubst %/bin/nvcc,%,$(wildcard /usr/local/cuda/bin/nvcc)))
NVCC ?= $(CUDA_HOME)/bin/nvcc
NVCC_FLAGS ?= -O2 -gencode arch=compute_75,code=compute_75 \
	-gencode arch=compute_90,code=sm_90

# A line for each file made, or with V=1 the whole command.
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' $(1) $(2))

# ------------------------------------------------------------------ sources

lib_dirs := base driver stacks trace snapshot streams allocator graphs ipc tensor
# The rooms of allocator/: docs/adr/0010.
rooms := options share policy magazines account memory fences cache request private host \
	lend api observe
lib_src := $(wildcard $(addsuffix /*.c,$(lib_dirs) $(rooms:%=allocator/%)))
sim_src := $(wildcard simcuda/*.c)
cudart_src := $(wildcard simcuda/cudart/*.c)
nvml_src := $(wildcard simcuda/nvml/*.c)
report_src := $(wildcard tools/report/*.c)
preload_src := $(wildcard preload/*.c preload/*/*.c)
tool_src := $(wildcard tools/weir/*.c tools/weir/*/*.c)
bench_src := $(wildcard tools/bench/*.c)
instructions_src := tools/bench/instructions.c tools/bench/latency.c
growth_src := tools/bench/growth.c
support_src := $(filter-out %_test.c,$(wildcard tests/support/*.c))
test_src := $(sort $(wildcard tests/*/*_test.c tests/*/*/*_test.c \
	tests/*/*/*/*_test.c))
fake_src := $(wildcard tests/*/fake/*.c)
# Sources that the test programs of a folder share, as tests/model/model.c.
shared_src := $(filter-out $(test_src) $(support_src),$(wildcard \
	$(addsuffix *.c,$(sort $(dir $(test_src))))))
program_src := $(wildcard tests/programs/*.c)
program_part := $(wildcard tests/programs/common/*.c)
fuzz_src := $(wildcard tests/fuzz/*_fuzz.c)
example_src := $(filter-out examples/kernels%,$(wildcard examples/*.c))
torch_src := $(wildcard plugins/torch/*.c)
torch_cpp := $(wildcard plugins/torch/*.cpp)
# The sources that weir.torch compiles against the PyTorch at hand.
torch_hpp := $(wildcard plugins/torch/*.hpp)
torch_sources := $(torch_cpp) $(torch_hpp) \
	$(addprefix plugins/torch/,compat.h weir_torch.h)
# The forms of PyTorch's interface, which tests/plugins/torch/double lists: the
# adapter is compiled and run in each.
torch_forms := 206 208 209 210 211 213 214
torch_form_dir := tests/plugins/torch/forms
torch_form_cpp := $(torch_cpp) $(wildcard $(torch_form_dir)/*.cpp \
	tests/plugins/torch/double/*.cpp)
torch_form_obj = $(foreach v,$(torch_forms),\
	$(torch_form_cpp:%.cpp=$(B)/obj/form-$(v)/%.o))
torch_form_programs = $(torch_forms:%=$(B)/$(torch_form_dir)/form-%)
py_src := $(if $(PYTHON),$(wildcard python/native/*.c))
py_modules := $(wildcard python/weir/*.py python/weir/*.pyi \
	python/weir/py.typed)
py_test_src := $(wildcard tests/python/*_test.py)
all_src := $(lib_src) $(sim_src) $(cudart_src) $(nvml_src) $(preload_src) \
	$(report_src) $(tool_src) $(bench_src) $(support_src) $(shared_src) $(fake_src) \
	$(program_part) $(program_src) $(test_src) $(py_src) $(torch_src)

public_headers := $(wildcard include/weir/*.h)
public_hpp := $(wildcard include/weir/*.hpp)
man_pages := $(wildcard docs/*.1 docs/*.3)

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
lib_obj := $(call obj,$(lib_src))
sim_obj := $(call obj,$(sim_src))
# The page of `weir view`, which is no source of this tree.
page_obj := $(B)/obj/viewer/page.o
# A tool's parts without its main(), its helper and its gate of allocations, for
# its tests. A sanitizer has a gate of its own.
tool_main := $(call obj,tools/weir/main.c tools/weir/reading/name_frames.c)
tool_part := $(filter-out $(tool_main) %/memory_gate.o,$(call obj,$(tool_src) \
	$(report_src))) $(page_obj)
tool_gate := $(if $(SAN),,$(call obj,tools/weir/memory_gate.c))
# The benchmarks print and look for libraries as the command does.
bench_obj := $(call obj,$(filter-out $(instructions_src) $(growth_src),$(bench_src)) \
	tools/weir/text.c tools/weir/locate.c base/utf8.c)
bench_part := $(filter-out %/main.o,$(bench_obj))

libweir_so := $(if $(lib_src),$(B)/lib/libweir.so)
# The archive as programs link it, and one for tests and tools of this tree,
# which see what is inside.
libweir_public := $(if $(lib_src),$(B)/lib/libweir.a)
libweir_a := $(if $(lib_src),$(B)/obj/libweir.a)
sim := $(if $(sim_src),$(B)/lib/sim/libcuda.so.1) \
	$(if $(cudart_src),$(B)/lib/sim/libcudart.so.13 \
	$(B)/lib/sim/libcudart_static.a) \
	$(if $(nvml_src),$(B)/lib/sim/libnvidia-ml.so.1)
# For programs in C on simcuda, without the toolkit.
sim_headers := $(patsubst simcuda/cudart/%,$(B)/lib/sim/%,\
	$(wildcard simcuda/cudart/include/*.h))
preload := $(if $(preload_src),$(B)/lib/libweir_preload.so)
libweir_torch := $(if $(torch_src),$(B)/lib/libweir_torch.so)
tool := $(if $(tool_src),$(B)/bin/weir)
bench := $(if $(bench_src),$(B)/bin/weir-bench)
bench_instructions := $(if $(bench_src),$(B)/bin/weir-bench-instructions)
bench_growth := $(if $(bench_src),$(B)/bin/weir-bench-growth)
# The adapter to PyTorch, the double of PyTorch, and pairs through both.
bench_torch := $(if $(bench_src),$(if $(torch_cpp),$(B)/lib/bench_torch.so))
# TESTS="tests/base/list_test ..." builds only these.
tests := $(patsubst %.c,$(B)/%,$(if $(TESTS),$(TESTS:%=%.c),$(test_src)))
fakes := $(patsubst %.c,$(B)/%.so,$(fake_src))
programs := $(patsubst %.c,$(B)/%,$(program_src))
fuzzers := $(patsubst %.c,$(B)/%,$(fuzz_src))
examples := $(patsubst %.c,$(B)/%,$(example_src))
# The package as it can be imported, and its tests as programs.
py_package := $(if $(PYTHON),$(addprefix $(B)/python/weir/,_weir.abi3.so \
	libweir.so.$(SOVERSION) $(notdir $(py_modules)) \
	$(public_headers) libweir_torch.so $(torch_sources) \
	site/sitecustomize.py $(if $(lacks_command),,bin/weir) \
	$(patsubst $(B)/%,%,$(preload) $(sim) $(sim_headers)) LICENSE THIRD-PARTY.txt) \
	$(addprefix $(B)/python/,_weir_autoload.py _weir_command.py weir.pth))
py_tests := $(if $(PYTHON),$(py_test_src:%.py=$(B)/%))
# Those that are linked with weir have no kernels: the same programs run on a
# GPU.
linked_examples := $(patsubst %,$(B)/%,$(basename \
	$(wildcard examples/linked/*.c examples/linked/*.cpp)))
cuda_examples := $(addsuffix -cuda,$(examples)) \
	$(addsuffix -cuda-shared,$(examples))

# ------------------------------------------------------------------ targets

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' \
	    $(firstword $(MAKEFILE_LIST))
	@sed -n 's/^#\tmake/  make/p' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: libs $(if $(lacks_command),,$(tool)) say-lacks ## build the libraries, the simulated driver and the weir command

.PHONY: libs
libs: $(libweir_so) $(libweir_public) $(sim) $(sim_headers) $(preload) $(libweir_torch)

# Where a GPU and the toolkit are, the demo is built by the toolkit's compiler.
.PHONY: run
gpu_examples := $(if $(wildcard /dev/nvidiactl /dev/nvidia0),$(if \
	$(CUDA_HOME),$(cuda_examples)))
run: build examples $(gpu_examples) ## install what is missing, build, and run the demo and the traces under weir
	scripts/run $(B)

.PHONY: examples examples-cuda
examples: $(examples) $(linked_examples)
examples-cuda: $(cuda_examples)

# All that the tests may start: make what they need, run nothing.
.PHONY: tests
tests: build examples $(tests) $(fakes) $(programs) $(bench) $(py_tests)

.PHONY: python wheel
python: $(py_package) ## build the Python package into build/release/python, to be put on PYTHONPATH
wheel: python ## build a wheel of the Python package, one for all versions, into build/wheel
	'$(PYTHON)' python/backend.py build/wheel

.PHONY: test
test: tests ## install what is missing, build, and run the tests on the simulated device
	scripts/test-run --sim -j2 --part 0.1/8 $(B)

# `make test` makes a tenth of the steps of random programs, and tries an eighth
# of the calls that may fail in the model's sweeps: another one after each change.
.PHONY: test-all
test-all: tests ## the same with all steps and cases
	scripts/test-run --sim -j2 $(B)

# Random programs and fault sweeps, which expect nothing of what stays cached:
# every driver call fails once, work ends late and in any order.
.PHONY: test-hostile
test-hostile: ## random programs with faults, and reclaim at every allocation
	$(MAKE) CONFIG=debug tests
	scripts/test-run --sim --hostile -j2 \
	    $$($(MAKE) -s --no-print-directory CONFIG=debug show-build) \
	    tests/model/

# 10,000,000 steps; `make test-all` makes 1,300,000. WEIR_TEST_SEED=random starts
# from a new seed.
.PHONY: test-long
test-long: tests ## ten million steps of random programs
	WEIR_TEST_EFFORT=8 WEIR_TEST_TIMEOUT_SCALE=40 \
	    scripts/test-run --sim -j2 $(B) tests/model/model_

# 10,080 starts; `make test-all` makes 63.
.PHONY: test-life
test-life: tests ## ten thousand programs that start and end in all kinds of ways
	WEIR_TEST_EFFORT=160 \
	    scripts/test-run --sim $(B) tests/preload/life_

# 17,000 starts; `make test-all` makes 150.
.PHONY: test-faults
test-faults: tests ## programs under the preload, with each call of the driver failing
	WEIR_TEST_EFFORT=10000 WEIR_TEST_TIMEOUT_SCALE=10 \
	    scripts/test-run --sim $(B) tests/preload/faults_

# 5,000 starts; `make test-all` makes 900.
.PHONY: test-memory
test-memory: tests ## each subcommand of weir, with each of its allocations failing
	WEIR_TEST_EFFORT=100 WEIR_TEST_TIMEOUT_SCALE=10 \
	    scripts/test-run --sim $(B) tests/tools/weir/memory_

# 10,000,000 events of each kind of memory; `make test-all` makes 100,000.
.PHONY: test-bounded
test-bounded: tests ## what long programs of producers and consumers hold over time
	WEIR_TEST_EFFORT=100 WEIR_TEST_TIMEOUT_SCALE=10 \
	    scripts/test-run --sim -j2 $(B) tests/allocator/bounded_

# HOURS may be a fraction. The ledger, build/soak/ledger, is gone on with.
HOURS ?= 1
.PHONY: soak
soak: ## random programs for HOURS in three builds, with a ledger of seeds
	scripts/soak $(HOURS)

# One test program at a time: they share one device.
.PHONY: test-gpu
test-gpu: tests ## the same test programs on this machine's GPU
	scripts/test-run --gpu $(B)

# In a browser without a window, which `make test` does not need.
.PHONY: test-viewer
test-viewer: build $(B)/tests/programs/driver_steps $(call deps,viewer) ## test the page of `weir view` in a browser
	scripts/test-viewer $(B)

.PHONY: test-san
test-san: $(call deps,san) ## the tests under ASan+UBSan, TSan and valgrind, in the time CI has
	scripts/test-san

.PHONY: cover
cover: $(call deps,cover) ## line coverage of the tests, as text
	$(MAKE) COVER=1 tests
	scripts/cover $$($(MAKE) -s --no-print-directory COVER=1 show-build)

# BENCH is what weir-bench is told: names of benchmarks, flags.
.PHONY: bench bench-instructions
bench: build $(bench) ## run the benchmarks of tools/bench; BENCH="pair threads --json"
	scripts/bench $(B) $(BENCH)

bench-instructions: libs $(bench_instructions) $(bench_torch) $(call deps,san) ## compare counted instructions with the kept numbers; ACCEPT=1 keeps new ones
	scripts/bench-instructions $(if $(ACCEPT),--accept) $(B)

.PHONY: bench-growth
bench-growth: build $(bench_growth) $(call deps,san) ## compare the instructions of n and of 4 n of everything
	scripts/bench-growth $(B)

fuzz_build := CC=clang SAN=address,undefined,fuzzer-no-link
.PHONY: fuzz
fuzz: $(call deps,fuzz) ## fuzz for MINUTES each program of tests/fuzz
	$(MAKE) $(fuzz_build) libs fuzzers
	scripts/fuzz $(FUZZ_SECONDS) \
	    $$($(MAKE) -s --no-print-directory $(fuzz_build) show-build)

.PHONY: fuzz-turn
fuzz-turn: $(call deps,fuzz) ## a fixed number of inputs for each program of tests/fuzz
	$(MAKE) $(fuzz_build) libs fuzzers
	scripts/fuzz --turn \
	    $$($(MAKE) -s --no-print-directory $(fuzz_build) show-build)

.PHONY: fuzzers
fuzzers: $(fuzzers)

.PHONY: show-build
show-build:
	@echo $(B)

.PHONY: clean distclean
distclean: clean
clean: ## remove what was built
	rm -rf build

# ------------------------------------------------------------- dependencies

build/deps-%: scripts/deps
	@mkdir -p $(@D)
	$(Q)scripts/deps $(if $(filter 1,$(DEPS)),,--say) $*
	@touch $@

.PHONY: deps
deps: $(LEVELS:%=build/deps-%) $(if $(filter page,$(LEVELS)),deps-page) ## install what is missing for LEVELS="build command ..."
# A page that could not be bundled before is empty.
.PHONY: deps-page
deps-page: build/deps-page
	$(Q)[ -s build/viewer/page.html ] || rm -f build/viewer/page.html
	$(Q)DEPS=1 scripts/viewer build/viewer/page.html

# Say which parts the build has left out.
.PHONY: say-lacks
say-lacks:
	@[ -z "$(lacks_command)" ] || scripts/deps --say command || \
	    echo "make: built without the weir command" >&2

$(B)/jemalloc-checked: $(je_lib) | $(call deps,build)
	@mkdir -p $(@D)
	scripts/jemalloc '$(JEMALLOC_PREFIX)'
	@touch $@

$(backtrace_ready): | $(call deps,command)
	@mkdir -p $(@D)
	cp $(dir $(backtrace_lib))include/backtrace.h $@

# -------------------------------------------------------------------- rules

$(B)/obj/%.o: %.c $(B)/flags | $(call deps,build)
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(cflags) -MMD -MP -c -o $@ $<

$(B)/obj/tools/weir/reading/name_frames.o: | $(backtrace_ready)
# Made before anything is linked, because all is linked with it.
ifneq ($(glibc_stub),)
$(glibc_stub)/made: scripts/glibc-stub base/glibc/stat.c base/glibc/start.c
	$(Q)CC='$(CC)' scripts/glibc-stub $(GLIBC) $(@D)
	$(Q)for part in stat start; do $(CC) -std=c11 -Wall -Wextra $(werror) \
	    -D_GNU_SOURCE -fPIC -fvisibility=hidden -O2 -g -c \
	    -o $(@D)/$$part.o base/glibc/$$part.c || exit; done
	@touch $@
glibc_start := $(glibc_stub)/start.o
$(glibc_start): $(glibc_stub)/made
$(call obj,$(all_src)): | $(glibc_stub)/made
endif

# These alone include jemalloc's header.
$(B)/obj/base/meta.o $(B)/obj/tools/bench/peers.o: | $(je_ready)

$(B)/obj/base/%.o $(B)/obj/stacks/%.o $(B)/obj/trace/%.o \
$(B)/obj/snapshot/%.o $(B)/obj/streams/%.o $(B)/obj/allocator/%.o \
$(patsubst %.c,$(B)/obj/%.o,$(wildcard driver/*.c)): \
	cflags += $(tls_flags) $(fetch_flags) -fno-tree-slp-vectorize
# Our declarations are compared with the toolkit's, where there is one.
$(B)/obj/tests/driver/%.o: cppflags += $(addprefix -isystem ,\
	$(wildcard $(CUDA_HOME)/include))

# The adapter to PyTorch and its tests, against a double of PyTorch's interface
# that is in tests/; weir.torch compiles it against PyTorch's own.
cxxflags = -std=c++17 -Wall -Wextra $(werror) -fPIC -pthread $(opt) $(san_flags) \
	-D_GNU_SOURCE -I. -Iinclude -Itests/plugins/torch/double \
	-Isimcuda/cudart/include $(CPPFLAGS) $(CXXFLAGS)
$(torch_cpp:%.cpp=$(B)/obj/%.o) $(torch_form_obj): $(torch_sources)
$(B)/obj/%.o: %.cpp $(B)/flags | $(call deps,build)
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(cxxflags) -MMD -MP -c -o $@ $<
# Some forms call less of the adapter's functions.
define torch_form_rules
$(B)/obj/form-$(1)/%.o: %.cpp $(B)/flags | $(call deps,build)
	@mkdir -p $$(@D)
	$$(call say,CXX,"$$< (form $(1))")
	$$(Q)$$(CXX) $$(cxxflags) -DDOUBLE_VERSION=$(1) \
	    -Wno-unused-function -MMD -MP -c -o $$@ $$<
$(B)/$(torch_form_dir)/form-$(1): \
	$(torch_form_cpp:%.cpp=$(B)/obj/form-$(1)/%.o)
endef
$(foreach v,$(torch_forms),$(eval $(call torch_form_rules,$(v))))

# Holds the flags; it changes, and so rebuilds all, when they do. Expanded here,
# without what is added for the target that asks for it first.
all_flags := $(CC) $(cflags) $(ldflags) $(je_lib) $(libs)
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(all_flags)' | cmp -s - $@ || echo '$(all_flags)' >$@
.PHONY: FORCE
FORCE:

# dlclose() must not unmap it: threads that used it end in its code.
weir_map := scripts/libweir.map
$(B)/lib/libweir.so.$(SOVERSION): $(lib_obj) $(je_lib) $(weir_map)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(so_ldflags) -Wl,-soname,$(@F) $(call version_script,$(weir_map)) \
	    -Wl,-z,nodelete -o $@ $(lib_obj) $(je_lib) $(libs)

$(B)/lib/libweir.so: $(B)/lib/libweir.so.$(SOVERSION)
	ln -sf $(<F) $@

# Complete in itself: a jemalloc, if one is named, is in it under its prefix.
$(B)/obj/libweir.a: $(lib_obj) $(je_lib)
	@mkdir -p $(@D)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)printf '%s\n' 'CREATE $@' $(patsubst %,'ADDLIB %',$(je_lib)) \
	    $(lib_obj:%='ADDMOD %') SAVE END | $(AR) -M

preload_map := $(wildcard preload/preload.map)
preload_obj := $(call obj,$(preload_src) $(report_src))
$(B)/lib/libweir_preload.so: $(preload_obj) $(lib_obj) $(je_lib) $(preload_map)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(so_ldflags) -Wl,-soname,$(@F) -Wl,-z,now \
	    $(call version_script,$(preload_map)) \
	    -o $@ $(preload_obj) $(lib_obj) $(je_lib) $(libs)

# The half of the adapter to PyTorch that is C. It finds weir beside itself.
$(B)/lib/libweir_torch.so: $(call obj,$(torch_src)) $(B)/lib/libweir.so
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(so_ldflags) -Wl,-soname,$(@F) -o $@ $^ '-Wl,-rpath,$$ORIGIN' \
	    $(libs)

$(B)/lib/sim/include/%: simcuda/cudart/include/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# The simulated libraries link nothing but libc, and each has its export list
# beside its sources if it has one.
$(B)/lib/sim/libcuda.so.1: $(sim_obj)
$(B)/lib/sim/libcudart.so.13: $(call obj,$(cudart_src))
$(B)/lib/sim/libnvidia-ml.so.1: $(call obj,$(nvml_src))
$(B)/lib/sim/libcuda.so.1: map := $(wildcard simcuda/*.map)
$(B)/lib/sim/libcudart.so.13: map := $(wildcard simcuda/cudart/*.map)
$(B)/lib/sim/libnvidia-ml.so.1: map := $(wildcard simcuda/nvml/*.map)
$(filter %.so.1 %.so.13,$(sim)): $(wildcard simcuda/*.map simcuda/*/*.map)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(so_ldflags) -Wl,-soname,$(@F) $(call version_script,$(map)) \
	    -o $@ $(filter %.o,$^) $(libs)

# One object with all in it, whose hidden symbols nobody can meet outside.
define make_archive
	@mkdir -p $(@D)
	@rm -f $@
	$(call say,AR,$@)
	$(Q)$(CC) -r -nostdlib -o $@.o $(1)
	$(Q)$(OBJCOPY) $(2) $@.o
	$(Q)$(AR) rcs $@ $@.o
	@rm -f $@.o
endef

# Nothing but the calls of the headers shows: a program may have a function or a
# library of any other name.
$(B)/obj/api-symbols: $(public_headers) scripts/api-symbols
	@mkdir -p $(@D)
	$(Q)scripts/api-symbols $(public_headers) >$@
$(B)/lib/libweir.a: $(lib_obj) $(je_lib) $(B)/obj/api-symbols
	$(call make_archive,$(lib_obj) $(je_lib),\
	    --keep-global-symbols=$(B)/obj/api-symbols)

# The library that `nvcc -L DIR` links in place of NVIDIA's.
$(B)/lib/sim/libcudart_static.a: $(call obj,$(cudart_src))
	$(call make_archive,$^,--localize-hidden)

# Third-party libraries are linked statically: programs run where they are not
# installed.
$(B)/bin/weir: $(tool_main) $(tool_gate) $(tool_part) $(glibc_start) $(libweir_a)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ldflags) -o $@ $^ $(name_libs) $(tool_libs)

# The page of `weir view` is bundled once for all builds. Where that cannot be
# done it is empty, and the command says so.
page_src := $(wildcard tools/viewer/*.json tools/viewer/*.mjs \
	tools/viewer/src/* tools/viewer/src/*/*)
build/viewer/page.html: $(filter-out %/views,$(page_src)) scripts/viewer \
		scripts/npm-modules
	$(call say,PAGE,$@)
	$(Q)DEPS=$(DEPS) scripts/viewer $@

# The page as C: some hundred thousand numbers.
$(B)/obj/viewer/page.c: $(if $(filter 0,$(VIEWER)),,build/viewer/page.html) \
		scripts/page-c $(B)/viewer
	@mkdir -p $(@D)
	$(Q)scripts/page-c $(if $(filter 0,$(VIEWER)),/dev/null,$<) $@.new
	$(Q)cmp -s $@.new $@ && rm $@.new || mv $@.new $@
# Which of the two it is.
$(B)/viewer: FORCE
	@mkdir -p $(@D)
	@echo '$(VIEWER)' | cmp -s - $@ || echo '$(VIEWER)' >$@
$(page_obj): %.o: %.c $(B)/flags
	$(call say,CC,$<)
	$(Q)$(CC) $(cflags) -c -o $@ $<

# The benchmarks measure the shared library, as programs use it. jemalloc is a
# peer, and linked once more for that.
$(bench): $(bench_obj)
$(bench_instructions): $(call obj,$(instructions_src))
$(bench_growth): $(call obj,$(growth_src))
$(bench) $(bench_instructions) $(bench_growth): $(B)/bin/%: $(libweir_so) $(je_lib)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ldflags) -o $@ $(filter %.o,$^) $(filter %.so,$^) \
	    $(filter %.a,$^) -Wl,-rpath,'$$ORIGIN/../lib' $(tool_libs)

$(bench_torch): $(patsubst %.cpp,$(B)/obj/%.o,$(torch_cpp) \
		$(wildcard tests/plugins/torch/double/*.cpp) \
		tools/bench/torch_pairs.cpp) $(libweir_torch) $(libweir_so) \
		$(filter %libcudart.so.13,$(sim))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CXX) $(so_ldflags) -o $@ $(filter %.o,$^) \
	    $(filter %.so %.so.13,$^) -Wl,-rpath,'$$ORIGIN:$$ORIGIN/sim'

# A test program sees the internals: it links the archive, not the library.
# Tests of the command also see its parts. The simulated driver is a library for
# all. What lies beside a test and is no test is shared by the tests of that
# folder.
$(filter $(B)/tests/tools/weir/%,$(tests)): $(tool_part)
$(filter $(B)/tests/tools/bench/%,$(tests)): $(bench_part)
$(filter $(B)/tests/plugins/torch/%,$(tests)): $(call obj,$(torch_src))
$(foreach s,$(shared_src),$(eval $(filter $(B)/$(dir $s)%_test,$(tests)): \
	$(call obj,$s)))
# The C++ interface is compiled by each compiler there is, of a plain build.
cpp_other := $(if $(SAN)$(COVER),,$(shell command -v \
	$(if $(findstring clang,$(notdir $(CXX))),g++,clang++)))
cpp_cases := $(B)/obj/tests/cpp/first.o $(if $(cpp_other),$(B)/obj/tests/cpp/second.o)
# Valgrind 3.19 cannot read clang's DWARF 5.
cpp_flags = -std=c++17 -Wall -Wextra -Wpedantic $(werror) -fPIC -pthread $(opt) \
	-gdwarf-4 $(san_flags) -I. -Iinclude -Itests/cpp/double \
	-Isimcuda/cudart/include $(CPPFLAGS)
cpp_doubles := $(wildcard tests/cpp/double/* tests/cpp/double/*/* \
	tests/cpp/double/*/*/*)
$(B)/obj/tests/cpp/first.o: cpp_compiler = $(CXX)
$(B)/obj/tests/cpp/second.o: cpp_compiler = $(cpp_other)
$(B)/obj/tests/cpp/first.o $(B)/obj/tests/cpp/second.o: \
$(B)/obj/tests/cpp/%.o: tests/cpp/cases.cpp tests/cpp/cases.h \
		$(public_headers) $(public_hpp) $(cpp_doubles) $(B)/flags \
		| $(call deps,test)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(cpp_compiler) $(cpp_flags) -DCASES=$* -c -o $@ $<
$(B)/obj/tests/cpp/cpp_test.o: cppflags += -DCPP_COMPILERS=$(words $(cpp_cases))
$(filter $(B)/tests/cpp/%,$(tests)): $(cpp_cases)
$(B)/tests/model/tensor_fault_test: $(B)/obj/tests/ipc/other.o
$(filter $(B)/tests/cpp/%,$(tests)): private test_libs += -lstdc++

$(tests): | $(call deps,test) $(call deps,command)
$(call obj,$(test_src) $(support_src)): | $(call deps,test)
$(call obj,$(tool_src)): | $(call deps,command)
adapter_test := $(B)/tests/plugins/torch/adapter_test
adapter_obj := $(patsubst %.cpp,$(B)/obj/%.o,$(torch_cpp) \
	$(wildcard tests/plugins/torch/*.cpp tests/plugins/torch/double/*.cpp))
$(adapter_test): $(adapter_obj) $(filter %libcudart.so.13,$(sim))
$(adapter_test): test_libs += -lstdc++ '-Wl,-rpath,$$ORIGIN/../../../lib/sim'
$(tests): $(B)/%: $(B)/obj/%.o $(call obj,$(support_src)) $(libweir_a)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ldflags) -o $@ $(filter %.o,$^) $(filter %.a %.so.13,$^) \
	    $(test_libs)

# One program for each form, on the shared libraries as PyTorch has them.
$(torch_form_programs): $(libweir_torch) $(libweir_so) \
	$(filter %libcudart.so.13,$(sim))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CXX) $(ldflags) -o $@ $(filter %.o,$^) $(filter %.so %.so.13,$^) \
	    -Wl,-rpath,'$$ORIGIN/../../../../lib:$$ORIGIN/../../../../lib/sim'
$(B)/tests/plugins/torch/forms_test: | $(torch_form_programs)

# Programs that tests start under weir: CUDA programs like any other, which
# share common/*.c. What is named runtime_X is on the runtime API, static_X has
# the runtime in it, linked_X is linked with the driver, with_X with libweir; all
# others find the driver by themselves.
$(B)/obj/tests/programs/%.o: cppflags += -Itests/programs \
	-Isimcuda/cudart/include
$(filter $(B)/tests/programs/runtime_%,$(programs)): \
	$(filter %libcudart.so.13,$(sim))
$(filter $(B)/tests/programs/static_%,$(programs)): $(call obj,$(cudart_src))
$(filter $(B)/tests/programs/linked_%,$(programs)): $(filter %libcuda.so.1,$(sim))
$(filter $(B)/tests/programs/with_%,$(programs)): $(libweir_so)
$(filter $(B)/tests/programs/with_%,$(programs)): libs += \
	-Wl,-rpath,'$$ORIGIN/../../lib'
$(programs): $(B)/%: $(B)/obj/%.o $(call obj,$(program_part))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ldflags) -o $@ $(filter %.o %.so.1 %.so.13 %libweir.so,$^) $(libs)

# Libraries that tests load in place of real ones.
$(fakes): $(B)/%.so: $(B)/obj/%.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(so_ldflags) -o $@ $< -lpthread -ldl

fuzz_preload := $(patsubst %,$(B)/tests/fuzz/%_fuzz,names preload)
$(filter-out $(fuzz_preload),$(fuzzers)): $(B)/%: $(B)/obj/%.o $(B)/obj/tests/fuzz/fuzz.o $(tool_part) $(libweir_a)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ldflags) -fsanitize=fuzzer -o $@ $(filter-out %.so,$^) \
	    $(tool_libs)
$(B)/tests/fuzz/simcuda_fuzz: $(B)/obj/simcuda/conf.o

# These call the preload's hooks: it stands between them and the driver.
$(fuzz_preload): $(B)/%: $(B)/obj/%.o $(B)/obj/tests/fuzz/fuzz.o $(B)/obj/base/utf8.o $(preload)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ldflags) -fsanitize=fuzzer -o $@ $^ \
	    -Wl,-rpath,'$$ORIGIN/../../lib' -ldl

# The examples are CUDA programs in C, with their kernels apart: in kernels.cu
# for the toolkit's compiler, and as calls of what the simulated device has in
# kernels_sim.c. They find the runtime through the library path.
example_flags = -std=c11 -D_GNU_SOURCE -Wall -Wextra $(werror) -pthread \
	-Iexamples -Isimcuda/cudart/include
$(examples): $(B)/%: %.c $(wildcard examples/kernels_sim.c examples/*.h \
		simcuda/cudart/include/*.h) $(filter %libcudart.so.13,$(sim))
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(example_flags) $(opt) $(san_flags) -o $@ \
	    $(filter %.c %.so.13,$^) $(libs)

linked_flags = -D_GNU_SOURCE -Wall -Wextra $(werror) -pthread -Iinclude \
	-Isimcuda/cudart/include $(opt) $(san_flags)
linked_libs = $(B)/lib/libweir.so $(B)/lib/sim/libcudart.so.13 \
	-Wl,-rpath,'$$ORIGIN/../../lib' -Wl,--as-needed
$(linked_examples): $(libweir_so) $(public_headers) $(public_hpp) \
	$(filter %libcudart.so.13,$(sim)) simcuda/cudart/include/cuda_runtime.h
$(B)/examples/linked/%: examples/linked/%.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -std=c11 -rdynamic $(linked_flags) -o $@ $< $(linked_libs)
$(B)/examples/linked/%: examples/linked/%.cpp
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CXX) -std=c++17 $(linked_flags) -o $@ $< $(linked_libs)

cuda_sources = examples/kernels.cu $(wildcard examples/*.h)
$(B)/%-cuda: %.c $(cuda_sources)
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(NVCC_FLAGS) -Iexamples -cudart static -o $@ \
	    $(filter %.c %.cu,$^)
$(B)/%-cuda-shared: %.c $(cuda_sources)
	@mkdir -p $(@D)
	$(call say,NVCC,$@)
	$(Q)$(NVCC) $(NVCC_FLAGS) -Iexamples -cudart shared -o $@ \
	    $(filter %.c %.cu,$^)

# ------------------------------------------------------------------- Python

# One module over the stable ABI, which finds the library beside itself.
py_include = $(shell '$(PYTHON)' -c \
	'import sysconfig; print(sysconfig.get_path("include"))')
$(call obj,$(py_src)): private cppflags += -isystem $(py_include)
$(call obj,$(py_src)): | $(call deps,python)
$(B)/python/weir/_weir.abi3.so: $(call obj,$(py_src)) \
		$(B)/python/weir/libweir.so.$(SOVERSION)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(ldflags) -o $@ $^ '-Wl,-rpath,$$ORIGIN' $(libs)
# A library of the package has no debug information, but names of functions.
$(B)/python/weir/libweir.so.$(SOVERSION): $(B)/lib/libweir.so.$(SOVERSION)
	@mkdir -p $(@D)
	$(Q)$(OBJCOPY) --strip-debug $< $@
$(B)/python/weir/libweir_torch.so: $(B)/lib/libweir_torch.so
	@mkdir -p $(@D)
	$(Q)$(OBJCOPY) --strip-debug $< $@
# The command lies in bin/ and finds its libraries in lib/, as in the build.
$(B)/python/weir/bin/weir: $(B)/bin/weir
	@mkdir -p $(@D)
	$(Q)$(OBJCOPY) --strip-all $< $@
$(B)/python/weir/lib/%: $(B)/lib/%
	@mkdir -p $(@D)
	$(Q)$(OBJCOPY) --strip-debug $< $@
$(B)/python/weir/lib/sim/include/%: simcuda/cudart/include/%
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(B)/python/weir/LICENSE: LICENSE
	@mkdir -p $(@D)
	$(Q)cp $< $@
# Without the command the package contains none of the command's libraries.
$(B)/python/weir/THIRD-PARTY.txt: scripts/third-party \
		$(if $(lacks_command),,$(backtrace_ready))
	@mkdir -p $(@D)
	$(Q)CC='$(CC)' scripts/third-party $(if $(lacks_command),--no-command) \
	    '$(JEMALLOC_PREFIX)' >$@
$(B)/python/weir/plugins/%: plugins/%
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(B)/python/weir/%: python/weir/%
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(addprefix $(B)/python/,_weir_autoload.py _weir_command.py weir.pth): \
$(B)/python/%: python/%
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(B)/python/weir/include/%: include/%
	@mkdir -p $(@D)
	$(Q)cp $< $@

# A program for each file of tests, which runs pytest on it and prints TAP.
$(B)/tests/python/%.py: tests/python/%.py
	@mkdir -p $(@D)
	$(Q)cp $< $@
py_doubles := $(addprefix $(B)/,$(wildcard tests/python/double/*/*.py \
	tests/python/double/*/*/*.py tests/python/double/*/*/*/*.py))
py_examples := $(addprefix $(B)/,$(wildcard examples/python/*.py))
$(B)/examples/python/%.py: examples/python/%.py
	@mkdir -p $(@D)
	$(Q)cp $< $@
$(py_tests): $(B)/%: $(B)/%.py $(B)/tests/python/support.py $(py_doubles) \
		$(py_examples) $(py_package) | $(call deps,pytest)
	$(Q)printf '%s\n' '#!$(PYTHON)' 'import sys, support' \
	    'sys.exit(support.main(__file__ + ".py"))' >$@
	$(Q)chmod +x $@

# ------------------------------------------------------------------ install

install_env = DESTDIR='$(DESTDIR)' PREFIX='$(PREFIX)' BINDIR='$(BINDIR)' \
	INCLUDEDIR='$(INCLUDEDIR)' LIBDIR='$(LIBDIR)' PYTHONDIR='$(PYTHONDIR)' \
	MANDIR='$(MANDIR)' \
	DOCDIR='$(DOCDIR)' BASHCOMPDIR='$(BASHCOMPDIR)' \
	ZSHCOMPDIR='$(ZSHCOMPDIR)' FISHCOMPDIR='$(FISHCOMPDIR)' \
	VERSION='$(VERSION)' SOVERSION='$(SOVERSION)'
.PHONY: install uninstall deb rpm dist
# The Python package goes with it where Python's header is.
install_python = $(if $(PYTHON),$(if $(wildcard $(py_include)/Python.h),\
	$(MAKE) --no-print-directory DEPS=0 python,\
	echo "make: without the Python package: no Python.h" >&2))
install: build ## install to DESTDIR and PREFIX (/usr/local)
	+$(Q)$(install_python)
	$(install_env) JEMALLOC_PREFIX='$(JEMALLOC_PREFIX)' scripts/install $(B)

uninstall: ## remove what the last install put into DESTDIR and PREFIX
	$(install_env) scripts/install --remove

deb: build ## make a Debian package, build/weir_VERSION_ARCH.deb
	+$(Q)$(install_python)
	scripts/deb $(B) build

# rpmbuild makes it from a tarball of the last commit.
rpm: dist ## make a package for rpm, into build/rpm
	sed 's/@VERSION@/$(VERSION)/' packaging/weir.spec.in >build/weir.spec
	rpmbuild -bb --define "_topdir $$PWD/build/rpm" \
	    --define "_sourcedir $$PWD/build" build/weir.spec

# All that is committed, and the page, so that a build without a network has it.
dist: $(if $(filter 0,$(VIEWER)),,build/viewer/page.html) ## make a source tarball of the last commit, build/weir-VERSION.tar.xz
	@mkdir -p build
	git archive --format=tar $(if $(filter 0,$(VIEWER)),,\
	    --prefix=weir-$(VERSION)/tools/viewer/ \
	    --add-file=build/viewer/page.html) --prefix=weir-$(VERSION)/ HEAD | \
	    xz -9 -T1 >build/weir-$(VERSION).tar.xz.new
	mv build/weir-$(VERSION).tar.xz.new build/weir-$(VERSION).tar.xz

# --------------------------------------------------------------------- lint

# A check of one file leaves a stamp, so that a second run looks only at what
# has changed. Headers count as changed for all.
L := build/lint
lint_src := $(sort $(all_src) $(wildcard base/glibc/*.c) $(wildcard tests/fuzz/*.c examples/*.c \
	examples/linked/*.c))
# C++ headers need PyTorch, or its double, beside them.
cpp_headers := plugins/torch/compat.h tests/plugins/torch/own_allocator.h
lint_hdr := $(filter-out $(cpp_headers),$(sort $(public_headers) \
	$(wildcard $(addsuffix /*.h,$(sort $(patsubst %/,%,$(dir $(lint_src))))))))
lint_flags = -std=c11 $(cppflags) -Wall -Wextra
example_lint = $(if $(filter examples/%,$(1)),$(example_flags)) \
	$(if $(filter tests/programs/%,$(1)),-Itests/programs \
	-Isimcuda/cudart/include) \
	$(if $(filter python/%,$(1)),-isystem $(py_include))
header_stamps := $(lint_hdr:%=$(L)/%.alone)

lints := lint-shell lint-layers lint-functions lint-headers lint-cppcheck \
	lint-tidy lint-symbols lint-format lint-pages lint-recipes
.PHONY: lint $(lints)
lint: $(lints) ## check the sources in every way; each check alone is lint-NAME
	@echo "lint: nothing found"

.PHONY: format
# PTX headers are written by a compiler, and left as they are.
format_files = $(filter-out %.ptx.h,$(lint_src) $(lint_hdr)) $(public_hpp) \
	tests/cpp/cases.cpp $(filter %.hpp %.h,$(cpp_doubles)) \
	$(torch_cpp) $(torch_hpp) \
	$(wildcard examples/linked/*.cpp)
lint-format: $(call deps,lint)
	$(Q)clang-format --dry-run -Werror --ferror-limit=1 $(format_files) || \
	    { echo "lint-format: 'make format' lays them out" >&2; exit 1; }
format: $(call deps,lint) ## lay out all sources by .clang-format
	clang-format -i $(format_files)

lint-shell: $(call deps,lint)
	scripts/lint-shell

# Who includes whom, and whose symbols whose objects need.
linked_together := $(foreach s,lib_src sim_src cudart_src nvml_src preload_src \
	tool_src bench_src torch_src py_src,$(if $($s),$s))
# The objects of a list of sources, with those of tools/report where they are
# linked.
objects_of = $(call obj,$($(1)) $(if $(filter tool_src preload_src,$(1)),$(report_src)))
lint-layers: $(foreach s,$(linked_together),$(call objects_of,$s))
	$(Q)scripts/lint-layers includes $(lint_src) $(lint_hdr)
	$(Q)scripts/lint-rooms $(lint_src) $(lint_hdr)
	$(Q)$(foreach s,$(linked_together),scripts/lint-layers symbols $(B)/obj \
	    $(call objects_of,$s) &&) true

lint-functions:
	$(Q)scripts/lint-functions $(lint_src) $(lint_hdr)

lint-headers: $(header_stamps)
$(L)/%.h.alone: %.h $(lint_hdr) scripts/lint-header | $(call deps,build) \
		$(je_ready) $(backtrace_ready)
	@mkdir -p $(@D)
	$(Q)scripts/lint-header $< $(lint_flags) $(call example_lint,$<)
	@touch $@

# clang's own warnings, of locks too, and clang-tidy's checks, from one parse.
# The analyser is told what it cannot see, but not where that is defined. After
# 50,000 steps in a function, instead of 225,000, it goes on to the next: it
# tries what it has not seen first, and combinations of that later, which take
# four times as long and have found nothing more, in the tree or among
# faults put into it.
lint-tidy: $(lint_src:%=$(L)/%.tidy)
tidy_hint = $(if $(filter %/status.c %/error.c,$(1)),,-include \
	scripts/analyzer.h -Wno-unused-value \
	$(if $(filter %/cudart/,$(dir $(1))),-DANALYZE_CUDART))
# A test's fixture holds an arena's lock over calls, which clang cannot follow;
# debug builds check it. Of tests, those of locks are checked.
tidy_locks = $(if $(filter-out tests/base/%,$(filter tests/%,$(1))),,\
	-Wthread-safety)
tidy_steps := -Xclang -analyzer-config -Xclang max-nodes=50000
$(L)/%.c.tidy: %.c $(lint_hdr) .clang-tidy scripts/analyzer.h | $(call deps,lint) $(je_ready) \
		$(backtrace_ready)
	@mkdir -p $(@D)
	$(call say,TIDY,$<)
	$(Q)clang-tidy --quiet $< -- $(lint_flags) $(call tidy_locks,$<) \
	    $(tidy_steps) $(call tidy_hint,$<) $(call example_lint,$<) 2>&1 | \
	    { ! grep -v -E 'warnings? generated|^Suppressed|^Use -h'; }
	@touch $@

lint-cppcheck: $(call deps,lint)
	@mkdir -p $(L)/cppcheck
	$(Q)cppcheck --quiet --error-exitcode=1 --std=c11 --inline-suppr -j2 \
	    --cppcheck-build-dir=$(L)/cppcheck \
	    --enable=warning,performance,portability \
	    --suppressions-list=scripts/cppcheck.txt -I. -Iinclude \
	    -D_GNU_SOURCE -D__x86_64__ -D__GNUC__=12 '-DElfW(x)=Elf64_##x' $(lint_src)

lint-symbols: libs $(tool)
	$(Q)GLIBC='$(GLIBC)' scripts/lint-symbols $(B)/lib $(public_headers)

lint-pages: $(tool)
	$(Q)CC="$(CC)" scripts/list-pages --check $(B)/bin/weir
	$(Q)scripts/lint-docs

# CONTRIBUTING.md's recipes, each with a dummy.
lint-recipes: $(backtrace_ready)
	$(Q)CC="$(CC)" scripts/recipes

-include $(patsubst %.c,$(B)/obj/%.d,$(all_src) $(wildcard tests/fuzz/*.c)) \
	$(adapter_obj:.o=.d) $(torch_form_obj:.o=.d) \
	$(B)/obj/tools/bench/torch_pairs.d
