# weir: one Makefile for the whole tree. GNU make 4.3 or newer.
#
#   make help                     the targets
#   make CONFIG=debug             release (default) or debug
#   make SAN=address,undefined    with sanitizers; also SAN=thread
#   make CC=clang                 another compiler
#
# Each combination has a folder of its own, build/NAME; `make show-build`
# prints it. Sources are found by wildcard: a new .c file in a known folder
# needs no line here.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
SHELL := /bin/bash

# ---------------------------------------------------------------- choices

VERSION := 0.1.0
SOVERSION := 0

ifeq ($(origin CC),default)
CC := gcc
endif
AR ?= ar
CXX := $(if $(findstring clang,$(CC)),clang++,g++)

SAN ?=
CONFIG ?= $(if $(SAN),debug,release)
# 0 builds without jemalloc, so that valgrind and the sanitizers see every
# byte of metadata.
JEMALLOC ?= $(if $(SAN),0,1)
# A jemalloc that is there already; by default one is built in build/.
JEMALLOC_PREFIX ?=
# 0 leaves out the check for missing packages.
DEPS ?= 1

PREFIX ?= /usr/local
LIBDIR ?= $(PREFIX)/lib
DESTDIR ?=

comma := ,
ifeq ($(SAN),)
san_name :=
else ifeq ($(SAN),address$(comma)undefined)
san_name := -asan
else ifeq ($(SAN),thread)
san_name := -tsan
else
san_name := -$(subst $(comma),-,$(SAN))
endif
cc_name := $(if $(filter gcc cc,$(CC)),,-$(notdir $(firstword $(CC))))
je_name := $(if $(SAN),,$(if $(filter 0,$(JEMALLOC)),-nojemalloc))
B := build/$(CONFIG)$(cc_name)$(san_name)$(je_name)

ifeq ($(CONFIG),release)
opt := -O2 -g
else ifeq ($(CONFIG),debug)
opt := -O1 -g -DWEIR_DEBUG=1
else
$(error CONFIG is release or debug, not '$(CONFIG)')
endif

WARN := -Wall -Wextra -Werror
CFLAGS ?=
CPPFLAGS ?=
LDFLAGS ?=
san_flags := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer \
	-fno-sanitize-recover=all)
all_cflags = -std=c11 -D_GNU_SOURCE $(WARN) -fvisibility=hidden -fPIC $(opt) \
	-pthread $(san_flags) -I. -Iinclude $(je_cppflags) $(CPPFLAGS) $(CFLAGS)
all_ldflags = -pthread $(san_flags) -Wl,--exclude-libs,ALL $(LDFLAGS)
# A sanitizer's runtime is in the program, not in the libraries.
so_ldflags = -shared $(all_ldflags) $(if $(SAN),,-Wl,-z,defs)
libs := -ldl -lm

# ---------------------------------------------------------------- jemalloc

ifeq ($(JEMALLOC),0)
je_cppflags := -DWEIR_NO_JEMALLOC=1
je_lib :=
je_dir :=
else ifneq ($(JEMALLOC_PREFIX),)
je_dir := $(JEMALLOC_PREFIX)
je_cppflags = -I$(je_dir)/include
je_lib = $(firstword $(wildcard $(je_dir)/lib/libjemalloc_pic.a \
	$(je_dir)/lib/libjemalloc.a) $(je_dir)/lib/libjemalloc_pic.a)
else
je_dir := build/jemalloc-5.3
je_cppflags = -I$(je_dir)/include
je_lib := $(je_dir)/lib/libjemalloc_pic.a
endif

# ---------------------------------------------------------------- sources

lib_src := $(wildcard $(addsuffix /*.c,\
	base driver trace streams allocator graphs tensor))
sim_src := $(wildcard driver/sim/*.c)
cudart_src := $(wildcard driver/sim/cudart/*.c)
nvml_src := $(wildcard driver/sim/nvml/*.c)
tool_src := $(wildcard tools/weir/*.c)
preload_src := $(wildcard tools/preload/*.c)
bench_src := $(wildcard tools/bench/*.c)
support_src := $(filter-out %_test.c,$(wildcard tests/support/*.c))
test_src := $(sort $(wildcard tests/*/*_test.c tests/*/*/*_test.c))
example_src := $(wildcard examples/*.cu)

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))
lib_obj := $(call obj,$(lib_src))
all_src := $(lib_src) $(sim_src) $(cudart_src) $(nvml_src) $(tool_src) \
	$(preload_src) $(bench_src) $(support_src) $(test_src)

libweir := $(if $(lib_src),$(B)/lib/libweir.so $(B)/lib/libweir.a)
sim := $(if $(sim_src),$(B)/lib/sim/libcuda.so.1) \
	$(if $(cudart_src),$(B)/lib/sim/libcudart.so.13) \
	$(if $(nvml_src),$(B)/lib/sim/libnvidia-ml.so.1)
preload := $(if $(preload_src),$(B)/lib/libweir_preload.so)
tool := $(if $(tool_src),$(B)/bin/weir)
tests := $(patsubst %.c,$(B)/%,$(test_src))

# ---------------------------------------------------------------- targets

.PHONY: build
build: $(libweir) $(sim) $(preload) $(tool) ## libraries, simulated driver and the weir command

.PHONY: tests
tests: build $(tests)

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' \
	    $(firstword $(MAKEFILE_LIST))

.PHONY: show-build
show-build:
	@echo $(B)

.PHONY: test
test: tests ## run the tests on the simulated device
	WEIR_LIBCUDA=$(CURDIR)/$(B)/lib/sim/libcuda.so.1 \
	    prove -j2 -e '' $(tests)

.PHONY: clean
clean: ## remove what was built, but keep jemalloc
	rm -rf $(filter-out $(wildcard build/jemalloc-*),$(wildcard build/*))

.PHONY: distclean
distclean: ## remove build/ altogether
	rm -rf build

# ---------------------------------------------------------------- rules

$(B)/obj/%.o: %.c $(B)/flags | $(je_lib)
	@mkdir -p $(@D)
	$(CC) $(all_cflags) -MMD -MP -c -o $@ $<

# Holds the flags; changes, and so rebuilds all, when they do.
$(B)/flags: FORCE
	@mkdir -p $(@D)
	@echo '$(CC) $(all_cflags) $(all_ldflags)' | cmp -s - $@ || \
	    echo '$(CC) $(all_cflags) $(all_ldflags)' > $@
.PHONY: FORCE
FORCE:

ifneq ($(je_lib),)
ifeq ($(JEMALLOC_PREFIX),)
$(je_lib): scripts/jemalloc
	scripts/jemalloc $(je_dir)
endif
endif

weir_map := $(wildcard scripts/libweir.map)
$(B)/lib/libweir.so.$(SOVERSION): $(lib_obj) $(je_lib) $(weir_map)
	@mkdir -p $(@D)
	$(CC) $(so_ldflags) -Wl,-soname,$(@F) \
	    $(addprefix -Wl$(comma)--version-script=,$(weir_map)) \
	    -o $@ $(lib_obj) $(je_lib) $(libs)

$(B)/lib/libweir.so: $(B)/lib/libweir.so.$(SOVERSION)
	ln -sf $(<F) $@

# Self-contained: jemalloc's members are in it, under their own prefix.
$(B)/lib/libweir.a: $(lib_obj) $(je_lib)
	@mkdir -p $(@D)
	@rm -f $@
	printf '%s\n' 'CREATE $@' $(addprefix 'ADDLIB ,$(addsuffix ',$(je_lib))) \
	    $(foreach o,$(lib_obj),'ADDMOD $o') SAVE END | $(AR) -M

preload_map := $(wildcard tools/preload/preload.map)
$(B)/lib/libweir_preload.so: $(call obj,$(preload_src)) $(lib_obj) $(je_lib) \
		$(preload_map)
	@mkdir -p $(@D)
	$(CC) $(so_ldflags) -Wl,-soname,$(@F) \
	    $(addprefix -Wl$(comma)--version-script=,$(preload_map)) \
	    -o $@ $(filter %.o,$^) $(je_lib) $(libs)

# The simulated libraries link nothing but libc.
sim_map := $(wildcard driver/sim/simcuda.map)
$(B)/lib/sim/libcuda.so.1: $(call obj,$(sim_src)) $(sim_map)
	@mkdir -p $(@D)
	$(CC) $(so_ldflags) -Wl,-soname,$(@F) \
	    $(addprefix -Wl$(comma)--version-script=,$(sim_map)) \
	    -o $@ $(filter %.o,$^) -lpthread -ldl

$(B)/lib/sim/libcudart.so.13: $(call obj,$(cudart_src))
	@mkdir -p $(@D)
	$(CC) $(so_ldflags) -Wl,-soname,$(@F) -o $@ $^ -lpthread -ldl

$(B)/lib/sim/libnvidia-ml.so.1: $(call obj,$(nvml_src))
	@mkdir -p $(@D)
	$(CC) $(so_ldflags) -Wl,-soname,$(@F) -o $@ $^ -lpthread -ldl

# Third-party libraries are linked statically: the program runs where they
# are not installed.
$(B)/bin/weir: $(call obj,$(tool_src)) $(B)/lib/libweir.a
	@mkdir -p $(@D)
	$(CC) $(all_ldflags) -o $@ $^ -l:libjansson.a -l:liblzma.a $(libs)

# A test program sees the internals: it links the archive, not the library.
# Tests of a tool see the tool's sources but its main(), tests of the simulated
# driver that driver's.
tool_part := $(filter-out %/main.o,$(call obj,$(tool_src)))
$(B)/tests/tools/weir/%: extra = $(tool_part)
$(B)/tests/driver/sim/%: extra = $(call obj,$(sim_src))
$(filter $(B)/tests/tools/weir/%,$(tests)): $(tool_part)
$(filter $(B)/tests/driver/sim/%,$(tests)): $(call obj,$(sim_src))

test_libs := -l:libjansson.a -l:liblzma.a -l:libcheck_pic.a -l:libsubunit.a \
	-lrt $(libs)
$(tests): $(B)/%: $(B)/obj/%.o $(call obj,$(support_src)) \
		$(filter %.a,$(libweir))
	@mkdir -p $(@D)
	$(CC) $(all_ldflags) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(test_libs)

.SECONDARY:
-include $(patsubst %.c,$(B)/obj/%.d,$(all_src))
