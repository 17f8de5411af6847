# The entry point. CMake and Ninja do the work, in build/PRESET.
#
#   make            build the library, the command and the examples
#   make run        build and start the lock service on 127.0.0.1:8080, on the embedded engine
#   make test       build and run all tests (installs missing packages)
#   make bench      run the benchmarks, and print a table
#   make install    install under PREFIX (default /usr/local), within DESTDIR
#   make uninstall  remove what make install has installed, with the same PREFIX and DESTDIR
#   make dist       make release tarballs in build/dist: the sources, and the command for this kind of machine
#   make deb        build the Debian packages in build/deb, and check them with lintian
#   make deb-test   install them in a clean chroot, use them, purge them; and boot the service under systemd (root)
#   make format     format the sources
#   make lint       check format and banned functions, and build with both compilers, warnings as errors
#   make asan tsan  run the tests with sanitizers
#   make valgrind   run the unit tests under valgrind, and the service under a small attack
#   make attack     run hostile clients against the release build while measuring a well-behaved one
#   make sim        simulate SCHEDULES schedules (default 100000) per profile, on all cores
#   make sim-mutants  check that the simulator catches every deliberate bug in the protocol
#   make interop    run beside the original lock clients, on DynamoDB Local and on the service's DynamoDB API
#   make endpoint   compare the service's DynamoDB API with DynamoDB Local, and run published SDKs and lock clients on it
#   make page       test the service's page in Chromium
#   make openapi    test the service against its OpenAPI document, and clients generated from it
#   make packaging  check manifests, templates, policies, alert rules, units, man pages and shell completion
#   make fuzz       run each fuzz target for FUZZ_SECONDS (default 10)
#   make analyze    build with gcc -fanalyzer
#   make clean      remove build/, including the test servers installed there
#
# JOBS=N limits the number of parallel jobs (default: all cores). ATTACK=… passes options to tests/attack/attack.py,
# such as --short or --only NAME; DIFFERENTIAL=… to tests/endpoint/differential.py, such as --cases 10000 --seed 7.

PREFIX ?= /usr/local
FUZZ_SECONDS ?= 10
JOBS ?= $(shell nproc)

SCHEDULES ?= 100000

.PHONY: all run test page openapi endpoint packaging bench install uninstall dist deb deb-test format lint asan tsan \
	valgrind attack sim sim-mutants interop fuzz analyze clean

# $(call build,PRESET[,TARGET]): configures once, then builds.
define build
	@mkdir -p build/$(1)
	@test -f build/$(1)/build.ninja || cmake --preset $(1) >build/$(1)/configure.log || \
		{ cat build/$(1)/configure.log; exit 1; }
	@ninja -j $(JOBS) -C build/$(1) $(2) >build/$(1)/build.log || { cat build/$(1)/build.log; exit 1; }
endef

all:
	@tools/setup build
	$(call build,release,holdfast holdfast_static holdfast_command holdfast_pages examples)
	@echo "the command is build/release/src/holdfast, the library beside it"

run:
	@tools/setup build
	$(call build,release,holdfast_command)
	@tools/run build/release/src/holdfast

# Most tests spend their time waiting, so run twice as many as there are processors.
test:
	@tools/setup test
	$(call build,dev)
	@cd build/dev && ctest --output-on-failure -j $$(($(JOBS) * 2))
	@grep -h '^\*\*\* ' build/dev/Testing/Temporary/LastTest.log || true # tests that could not run

page:
	@tools/setup page
	$(call build,dev)
	@node tests/service/test_page.mjs build/servers/page build/dev/src/holdfast $(SCREENSHOT)

openapi:
	@tools/setup openapi
	$(call build,dev)
	@HOLDFAST_COMMAND=build/dev/src/holdfast python3 -W ignore tests/service/test_openapi.py

endpoint:
	@tools/setup endpoint
	$(call build,dev,holdfast_command)
	@tests/endpoint/build build/servers/endpoint
	@tests/servers/with-dynamodb-local python3 tests/endpoint/differential.py --command build/dev/src/holdfast $(DIFFERENTIAL)
	@tests/endpoint/run build/dev/src/holdfast

packaging:
	@tools/setup packaging
	@build/servers/packaging/bin/kubernetes-validate --strict --quiet packaging/kubernetes/*.yaml
	@build/servers/packaging/bin/cfn-lint packaging/aws/*.yaml
	@promtool check rules packaging/prometheus/*.yaml
	$(call build,release,holdfast holdfast_static holdfast_command holdfast_pages)
	@tests/packaging/test_pages build/release/man
	@tests/packaging/test_units build/release
	@for test in image policies completion; do echo "$$test:" && \
		HOLDFAST_COMMAND=build/release/src/holdfast build/servers/packaging/bin/python -W ignore tests/packaging/test_$$test.py || exit 1; done

bench:
	@tools/setup bench
	$(call build,bench)
	@tests/bench/run build/bench

install:
	@tools/setup build
	@cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)" >/dev/null
	$(call build,release,holdfast holdfast_static holdfast_command holdfast_pages)
	@DESTDIR="$(DESTDIR)" cmake --install build/release --component holdfast

uninstall:
	@tools/setup build
	@cmake --preset release -DCMAKE_INSTALL_PREFIX="$(PREFIX)" >/dev/null
	$(call build,release,holdfast holdfast_static holdfast_command holdfast_pages)
	@tools/uninstall build/release "$(DESTDIR)"

dist:
	@tools/setup build
	$(call build,static,holdfast holdfast_static holdfast_command holdfast_pages)
	@tools/dist build/static build/dist

deb:
	@tools/setup deb
	@JOBS=$(JOBS) tools/deb build/deb

deb-test: deb
	@tests/packaging/test_deb build/deb
	@tests/packaging/test_boot build/deb

format:
	@tools/setup lint
	@git ls-files '*.c' '*.h' | xargs clang-format -i

lint:
	@tools/setup lint
	@tools/lint
	$(call build,dev)
	$(call build,clang)

asan tsan:
	@tools/setup test
	$(call build,$@)
	@cd build/$@ && ctest --output-on-failure -j $$(($(JOBS) + 1))

valgrind:
	@tools/setup lint
	$(call build,dev)
	@tests/valgrind.sh build/dev

attack:
	@tools/setup attack
	$(call build,release,holdfast_command)
	$(call build,bench,attack_caller)
	@python3 tests/attack/attack.py --command build/release/src/holdfast --caller build/bench/tests/attack_caller $(ATTACK)

sim:
	@tools/setup test
	$(call build,bench,holdfast-sim)
	@tests/sim/run build/bench/tests/holdfast-sim $(SCHEDULES) $(JOBS)

sim-mutants:
	@tools/setup test
	$(call build,bench,holdfast-sim-mutants)
	@tests/sim/mutants build/bench/tests/holdfast-sim-mutants

interop:
	@tools/setup interop
	$(call build,bench,interop_ours holdfast_command)
	@tests/interop/build build/interop
	@tests/servers/with-dynamodb-local tests/interop/run build/bench build/interop

fuzz:
	@tools/setup lint
	$(call build,fuzz)
	@tests/fuzz/run build/fuzz $(FUZZ_SECONDS)

analyze:
	@tools/setup build
	$(call build,analyze)

clean:
	rm -rf build
