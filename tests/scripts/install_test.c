/*
 * The results of `make install`, `make deb` and `make dist`: a program finds
 * the library with pkg-config and with CMake, shared and static, and runs; a
 * source tarball builds.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/test.h"

enum { COMPILE_SECONDS = 120 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

/* A function with a name that the library uses inside, too. */
static const char program_text[] =
    "#include <stdio.h>\n"
    "#include <weir/weir.h>\n"
    "void take_block(void);\n"
    "void take_block(void) {}\n"
    "int main(void)\n"
    "{\n"
    "	void *block = weir_malloc(1 << 20, NULL);\n"
    "	if (block == NULL)\n"
    "		fprintf(stderr, \"%s\\n\", weir_last_error());\n"
    "	weir_free(block);\n"
    "	printf(\"%s\\n\", block != NULL ? \"served\" : \"failed\");\n"
    "	return block == NULL;\n"
    "}\n";

static const char cmake_text[] =
    "cmake_minimum_required(VERSION 3.16)\n"
    "project(user C)\n"
    "find_package(weir 0.1 REQUIRED)\n"
    "foreach(kind weir static)\n"
    "	add_executable(user_${kind} main.c)\n"
    "	target_link_libraries(user_${kind} PRIVATE weir::${kind})\n"
    "endforeach()\n"
    "get_target_property(preload weir::preload LOCATION)\n"
    "if(NOT EXISTS \"${preload}\")\n"
    "	message(FATAL_ERROR \"no ${preload}\")\n"
    "endif()\n"
    "if(NOT EXISTS \"${weir_SIM_DIR}/libcudart_static.a\")\n"
    "	message(FATAL_ERROR \"no ${weir_SIM_DIR}\")\n"
    "endif()\n"
    "foreach(version 0.2 1 1.0)\n"
    "	find_package(weir ${version} QUIET)\n"
    "	if(weir_FOUND)\n"
    "		message(FATAL_ERROR \"0.1 is no ${version}\")\n"
    "	endif()\n"
    "endforeach()\n";

/* A new folder; remove_folder() removes it. */
static char *
make_folder(void)
{
	char *folder = strdup("/tmp/weir-install-XXXXXX");

	EXPECT_NOT_NULL(mkdtemp(folder));
	return folder;
}

/* Run a line of shell in the folder, which is $D; $B is the build, $TOP the
 * sources, whose paths may have spaces. */
static struct command_result
run_line(const char *folder, const char *line)
{
	char *text;
	const char *const argv[] = { "bash", "-ec", NULL, NULL };
	const char *filled[4];
	struct command_result result;

	if (asprintf(&text,
		"D=%s B='%s' TOP='%s/../..' IFS=$'\n'; "
		"unset MAKEFLAGS CFLAGS; cd $D; %s",
		folder, test_build_dir(), test_build_dir(), line) < 0)
		FAIL("out of memory");
	memcpy(filled, argv, sizeof(argv));
	filled[2] = text;
	result = command_run(filled);
	free(text);
	return result;
}

static int
run_status(const char *folder, const char *line)
{
	struct command_result result = run_line(folder, line);
	int status = result.status;

	command_free(&result);
	return status;
}

/* Run a line, which must succeed. */
static struct command_result
run(const char *folder, const char *line)
{
	struct command_result result = run_line(folder, line);

	if (result.status != 0)
		FAIL("%s: exit status %d: %s%s", line, result.status,
		    result.out, result.err);
	return result;
}

static void
run_only(const char *folder, const char *line)
{
	struct command_result result = run(folder, line);

	command_free(&result);
}

static void
remove_folder(char *folder)
{
	run_only(folder, "cd /; rm -r $D");
	free(folder);
}

static void
write_file(const char *folder, const char *name, const char *text)
{
	char path[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	EXPECT_NOT_NULL(file);
	EXPECT_EQ(fputs(text, file) >= 0, 1);
	EXPECT_EQ(fclose(file), 0);
}

static bool
has_program(const char *name)
{
	char line[128];
	const char *const argv[] = { "bash", "-c", line, NULL };
	struct command_result result;
	bool has;

	snprintf(line, sizeof(line), "command -v %s", name);
	result = command_run(argv);
	has = result.status == 0;
	command_free(&result);
	return has;
}

/* A folder with weir installed under usr/, and main.c beside it. */
static char *
installed(const char *needs)
{
	char *folder;

	if (sanitized)
		SKIP("a sanitized library needs sanitized programs");
	if (!has_program("cc") || !has_program(needs))
		SKIP("this machine lacks a compiler or what finds libraries");
	folder = make_folder();
	run_only(folder, "PREFIX=$D/usr DESTDIR= $TOP/scripts/install $B");
	write_file(folder, "main.c", program_text);
	return folder;
}

static void
expect_served(const char *folder, const char *program)
{
	char line[256];
	struct command_result result;

	snprintf(line, sizeof(line),
	    "LD_LIBRARY_PATH=usr/lib:usr/lib/weir/sim:"
	    "$LD_LIBRARY_PATH ./%s",
	    program);
	result = run(folder, line);
	EXPECT_STR_EQ(result.out, "served\n");
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
}

TEST_TIMEOUT(a_program_is_linked_by_pkg_config, COMPILE_SECONDS)
{
	char *folder = installed("pkg-config");

	run_only(folder,
	    "IFS=' '; export PKG_CONFIG_PATH=$D/usr/lib/pkgconfig;"
	    "cc -o shared main.c $(pkg-config --cflags --libs weir);"
	    "cc -o static main.c $(pkg-config --cflags weir)"
	    " $D/usr/lib/libweir.a -pthread -ldl -lm;"
	    "test -e $(pkg-config --variable=preload weir);"
	    "test -e $(pkg-config --variable=simdir weir)/libcuda.so.1");
	expect_served(folder, "shared");
	expect_served(folder, "static");
	remove_folder(folder);
}

/* Build systems split what pkg-config prints by the shell's rules. */
TEST_TIMEOUT(a_folder_with_a_space_is_one_word_to_pkg_config, COMPILE_SECONDS)
{
	char *folder = installed("pkg-config");

	run_only(folder,
	    "PREFIX=\"$D/a place\" DESTDIR= $TOP/scripts/install $B;"
	    "export PKG_CONFIG_PATH=\"$D/a place/lib/pkgconfig\";"
	    "eval cc -o spaced main.c \"$(pkg-config --cflags --libs weir)\";"
	    "test -e \"$(pkg-config --variable=simdir weir)/libcuda.so.1\"");
	expect_served(folder, "spaced");
	remove_folder(folder);
}

TEST_TIMEOUT(a_program_is_linked_by_cmake, COMPILE_SECONDS)
{
	char *folder = installed("cmake");

	write_file(folder, "CMakeLists.txt", cmake_text);
	run_only(folder,
	    "cmake -S . -B out -DCMAKE_PREFIX_PATH=$D/usr; cmake --build out");
	expect_served(folder, "out/user_weir");
	expect_served(folder, "out/user_static");
	remove_folder(folder);
}

/* No file names the staging folder of the installation. */
TEST(a_staged_install_names_the_final_place)
{
	char *folder = make_folder();
	struct command_result result;

	run_only(folder,
	    "DESTDIR=$D/stage PREFIX=/opt/weir "
	    "LIBDIR=/opt/weir/lib64 $TOP/scripts/install $B");
	result = run(folder,
	    "cat stage/opt/weir/lib64/pkgconfig/weir.pc "
	    "stage/opt/weir/lib64/cmake/weir/*");
	EXPECT_STR_HAS(result.out, "libdir=/opt/weir/lib64\n");
	EXPECT_STR_HAS(result.out, "CURRENT_LIST_DIR}/../../../include\"");
	EXPECT_NULL(strstr(result.out, folder));
	EXPECT_NULL(strstr(result.out, "@"));
	command_free(&result);
	run_only(folder,
	    "test -e stage/opt/weir/include/weir/weir.hpp; "
	    "test -e stage/opt/weir/share/doc/weir/docs/design.md; "
	    "test -e stage/opt/weir/share/doc/weir/examples/linked/streams.c; "
	    "test -e stage/opt/weir/lib64/weir/sim/libcudart.so");
	remove_folder(folder);
}

/* The documents are read where they are installed, too. */
TEST(each_link_of_an_installed_document_leads_to_a_file)
{
	char *folder = make_folder();
	struct command_result result;

	run_only(folder,
	    "DESTDIR=$D/stage PREFIX=/opt/weir $TOP/scripts/install $B");
	result = run(folder,
	    "cd stage/opt/weir/share/doc/weir; n=0; "
	    "while IFS=: read -r file link; do "
	    "  n=$((n + 1)); link=${link#*\\(}; link=${link%%[#)]*}; "
	    "  case $link in *python/*) test -e python || continue; esac; "
	    "  test -z \"$link\" || test -e \"$(dirname $file)/$link\" || "
	    "    echo \"$file: $link\"; "
	    "done < <(grep -ro --include='*.md' "
	    "'\\](\\([^h)]\\|h[^t)]\\)[^)]*)' "
	    ".); test $n -gt 60 || echo \"$n links\"");
	EXPECT_STR_EQ(result.out, "");
	command_free(&result);
	remove_folder(folder);
}

/* The calls of the headers, each with its comment as the text. */
TEST(each_call_has_a_manual_page)
{
	char *folder = make_folder();
	struct command_result result;

	run_only(folder,
	    "mkdir pages; $TOP/scripts/man-pages pages "
	    "$TOP/include/weir/*.h >n; "
	    "$TOP/scripts/api-symbols $TOP/include/weir/*.h >calls; "
	    "for c in $(cat calls); do test -s pages/$c.3; done; "
	    "test $(cat n) -ge $(wc -l <calls)");
	result = run(folder, "cat pages/weir_malloc.3 pages/weir_free.3");
	EXPECT_STR_HAS(
	    result.out, "void *weir_malloc(size_t size, weir_stream stream);");
	EXPECT_STR_HAS(result.out, "WEIR_ENOMEM");
	EXPECT_STR_HAS(result.out, "Never waits, never fails");
	EXPECT_NULL(strstr(result.out, "@"));
	command_free(&result);
	remove_folder(folder);
}

TEST_TIMEOUT(a_debian_package_has_it_all, COMPILE_SECONDS)
{
	char *folder;
	struct command_result result;

	if (sanitized || !has_program("dpkg-deb"))
		SKIP("no Debian package can be made of this here");
	folder = make_folder();
	run_only(folder,
	    "$TOP/scripts/deb $B $D >name; "
	    "dpkg-deb -x $(cat name) root; dpkg-deb -f $(cat name) >control; "
	    "cd root; md5sum --quiet -c <(dpkg-deb --ctrl-tarfile "
	    "$(cat ../name) | tar -xO ./md5sums)");
	result = run(folder,
	    "cat control; root/usr/bin/weir --version; "
	    "find root -perm /022 ! -type l; find root ! -readable");
	EXPECT_STR_HAS(result.out, "Package: weir\n");
	EXPECT_STR_HAS(result.out, "Depends: libc6 (>= 2.2");
	EXPECT_STR_HAS(result.out, "weir 0.1.0");
	EXPECT_NULL(strstr(result.out, "root/"));
	command_free(&result);
	run_only(folder,
	    "test -e root/usr/share/doc/weir/copyright; "
	    "test -e root/usr/lib/cmake/weir/weirConfig.cmake; "
	    "test -e root/usr/lib/weir/sim/include/cuda_runtime.h; "
	    "test -e root/usr/share/doc/weir/THIRD-PARTY.txt; "
	    "test ! -e root/usr/lib/weir/installed; "
	    "cd root/usr/share/doc/weir; "
	    "$D/root/usr/bin/weir top tests/data/snapshots/train4.pickle; "
	    "cd $D; "
	    "test -e root/usr/share/man/man1/weir.1.gz; "
	    "test -e root/usr/share/man/man3/weir_malloc.3.gz");
	remove_folder(folder);
}

/* rpmbuild fails where a file is on no line of %files, and where a line has no
 * file. The file of Python's own folder is written by the recipe. */
TEST(the_recipe_for_rpm_names_each_file)
{
	char *folder = make_folder();
	struct command_result result;

	run_only(folder,
	    "DESTDIR=$D/s PREFIX=/usr LIBDIR=/usr/lib64 $TOP/scripts/install "
	    "$B;"
	    "sed -n '/^%files/,/^$/p' $TOP/packaging/weir.spec.in | "
	    "grep '^%{' | grep -v python3_sitelib | "
	    "sed -e 's|%{_bindir}|/usr/bin|; s|%{_libdir}|/usr/lib64|' "
	    "-e 's|%{_includedir}|/usr/include|; s|%{_mandir}|/usr/share/man|' "
	    "-e 's|%{_docdir}|/usr/share/doc|; s|%{_datadir}|/usr/share|' "
	    ">lines; test $(wc -l <lines) -gt 10");
	result = run(folder,
	    "for line in $(cat lines); do compgen -G \"s$line\" >found || "
	    "  echo \"no file: $line\"; done; "
	    "find s ! -type d | while read -r file; do "
	    "  for line in $(cat lines); do case $file in "
	    "    s$line|s$line/*) continue 2;; esac; done; "
	    "  echo \"no line: $file\"; done");
	EXPECT_STR_EQ(result.out, "");
	command_free(&result);
	remove_folder(folder);
}

/* Twice, since the second must still know what the first put there. What lay
 * there before stays. */
TEST(nothing_is_left_of_an_installation_that_is_removed)
{
	char *folder = make_folder();
	struct command_result result;

	run_only(folder,
	    "mkdir -p 's t/opt/weir/bin'; echo >'s t/opt/weir/bin/other'; "
	    "export DESTDIR=\"$D/s t\" PREFIX=/opt/weir; "
	    "$TOP/scripts/install $B; $TOP/scripts/install $B; "
	    "test -e 's t/opt/weir/lib/libweir.so'; "
	    "test -e 's t/opt/weir/lib/weir/installed'; "
	    "$TOP/scripts/install --remove");
	result = run(folder, "cd 's t'; find . ! -type d; find . -type d");
	EXPECT_STR_EQ(result.out,
	    "./opt/weir/bin/other\n.\n./opt\n./opt/weir\n./opt/weir/bin\n");
	command_free(&result);
	result = run_line(
	    folder, "DESTDIR=$D PREFIX=/none $TOP/scripts/install --remove");
	EXPECT_EQ(result.status, 1);
	EXPECT_STR_HAS(result.err, "nothing was installed there");
	command_free(&result);
	remove_folder(folder);
}

/* An older weir had a file that this one has not. */
TEST(a_new_installation_removes_what_only_the_old_one_had)
{
	char *folder = make_folder();

	run_only(folder,
	    "export DESTDIR=$D/stage PREFIX=/usr; $TOP/scripts/install $B; "
	    "cd stage/usr/lib; echo >weir/old; echo >weir/foreign; "
	    "echo /usr/lib/weir/old >>weir/installed; "
	    "$TOP/scripts/install $B; test ! -e weir/old; test -e "
	    "weir/foreign");
	remove_folder(folder);
}

/* Nothing of theirs may be distributed without its notice. */
TEST(each_library_within_weir_has_its_notice)
{
	char *folder = make_folder();
	struct command_result result =
	    run(folder, "$TOP/scripts/third-party >notice; cat notice");

	EXPECT_STR_HAS(result.out, "Ian Lance Taylor");
	EXPECT_STR_HAS(result.out, "Jean-loup Gailly and Mark Adler");
	EXPECT_STR_HAS(result.out, "Petri Lehtinen");
	command_free(&result);
	remove_folder(folder);
}

TEST(a_package_without_the_command_has_none_of_its_notices)
{
	char *folder = make_folder();
	struct command_result result =
	    run(folder, "$TOP/scripts/third-party --no-command");

	EXPECT_STR_HAS(result.out, "without the weir command");
	EXPECT(strstr(result.out, "Taylor") == NULL);
	command_free(&result);
	remove_folder(folder);
}

/* A machine without the command's libraries gets a Python package without the
 * command: nothing that the package is made of asks for them. */
TEST(a_package_without_the_command_needs_none_of_its_libraries)
{
	static const char steps[] =
	    "for part in $TOP/*; do [ ${part##*/} = build ] || "
	    "ln -s \"$part\" .; done; "
	    "make -n DEPS=say lacks_command=%s PYTHON=python3 python >steps; "
	    "grep -c 'touch build/deps-command' steps || true";
	char *folder = make_folder();
	char line[512];

	snprintf(line, sizeof(line), steps, "1");

	struct command_result without = run(folder, line);

	EXPECT_STR_EQ(without.out, "0\n");
	command_free(&without);
	remove_folder(folder);

	folder = make_folder();
	snprintf(line, sizeof(line), steps, "");

	struct command_result with = run(folder, line);

	EXPECT_STR_EQ(with.out, "1\n");
	command_free(&with);
	remove_folder(folder);
}

/* A tarball has no .git, and needs none to build, no network, and no path
 * without spaces. */
TEST_TIMEOUT(a_source_tarball_builds, 2 * COMPILE_SECONDS)
{
	char *folder;
	struct command_result result;

	if (sanitized || !has_program("git") || !has_program("xz"))
		SKIP("no tarball can be made of this here");
	folder = make_folder();
	if (run_status(folder, "git -C $TOP rev-parse HEAD") != 0) {
		remove_folder(folder);
		SKIP("this tree is no checkout of git");
	}
	run_only(folder,
	    "make -C $TOP dist; mkdir 'a b'; "
	    "tar -C 'a b' -xf $TOP/build/weir-*.tar.xz");
	result = run(folder,
	    "cd 'a b'/weir-*; test ! -e .git; test ! -e build; "
	    "alone=; unshare -rn true 2>/dev/null && alone=unshare || true; "
	    "${alone:+unshare} ${alone:+-rn} "
	    "make -j4 DEPS=0 VIEWER=0 PYTHON= CFLAGS=-O0 "
	    "build/release/lib/libweir.so");
	EXPECT_STR_EQ(result.err, "");
	command_free(&result);
	result = run(folder,
	    "nm -D --defined-only 'a b'/weir-*/build/release/lib/libweir.so");
	EXPECT_STR_HAS(result.out, " T weir_malloc@@");
	command_free(&result);
	remove_folder(folder);
}
