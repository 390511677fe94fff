# `make demo` shows what snin does, `make check` is for every change, `make test` runs every test, `make install`
# installs (PREFIX, DESTDIR). They do all their set-up: `deps` installs the Debian packages that are missing (with
# sudo if not root) and nothing else.

SHELL := /bin/bash
CARGO ?= cargo

# What it takes to build, and the judges that the tests ask.
BUILD_PACKAGES := gcc libc6-dev libibumad-dev
VERBS_PACKAGES := libibverbs-dev librdmacm-dev libclang-14-dev pkg-config
# Feature `spank`: the plugin is for the Slurm whose headers these are.
SPANK_PACKAGES := libslurm-dev
# Feature `etcd` of manager and controller.
ETCD_PACKAGES := protobuf-compiler libprotobuf-dev
JUDGE_PACKAGES := ibsim-utils opensm infiniband-diags ibutils tshark python3-prometheus-client chromium \
	python3-yaml systemd strace man-db slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge etcd-server etcd-client
# The virtual machine in which real verbs run (tools/vm); its kernel is downloaded, never installed.
VM_PACKAGES := qemu-system-x86 busybox-static cpio binutils strace iproute2 ibverbs-utils ibverbs-providers \
	librdmacm1 perftest util-linux tcpdump python3-pip libpmix2

# Everything is tested with real verbs in it (feature `verbs`); rdma-sys builds with libclang 14 only.
FEATURES := --all-features
export LIBCLANG_PATH ?= /usr/lib/llvm-14/lib

# Where `make install` puts things; DESTDIR is put in front of all of it.
PREFIX ?= /usr/local
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
BASHCOMPDIR ?= $(PREFIX)/share/bash-completion/completions
ZSHCOMPDIR ?= $(PREFIX)/share/zsh/site-functions
FISHCOMPDIR ?= $(PREFIX)/share/fish/vendor_completions.d

SNIN := target/release/snin
DEMO := target/demo

RUN ?= ibv_devinfo

.PHONY: demo check check-features test install toolchain deps deps-build deps-verbs deps-judges deps-vm vm lab lab-jobs lint space clean bench bench-against \
	bench-tables bench-bring-up bench-election bench-emulator bench-failover bench-found bench-jobs bench-merge bench-packing \
	bench-reconfiguration bench-sa bench-sm bench-verbs bench-window \
	soak soak-sm soak-merge soak-agent \
	soak-controller soak-ibsim soak-packing soak-properties soak-rmpp soak-up

# What is released is optimised as a whole, program by program; to be looked at it need not be.
demo: export CARGO_PROFILE_RELEASE_LTO := off
demo: export CARGO_PROFILE_RELEASE_CODEGEN_UNITS := 16
demo: export CARGO_PROFILE_RELEASE_DEBUG := false
demo: toolchain deps-build
	$(CARGO) build --release --quiet --bin snin --bin snin-sm --bin snin-controller --bin snin-software-agents
	@mkdir -p $(DEMO)
	@echo '$$ snin topo generate clos:36,18,18 > $(DEMO)/fabric.ibnetdiscover'
	@$(SNIN) topo generate clos:36,18,18 > $(DEMO)/fabric.ibnetdiscover
	@echo '$$ snin topo check $(DEMO)/fabric.ibnetdiscover'
	@$(SNIN) topo check $(DEMO)/fabric.ibnetdiscover
	@echo '$$ snin lab $(DEMO)/fabric.ibnetdiscover --html $(DEMO)/lab.html    # the main thing: three ways to carry the same traffic'
	@$(SNIN) lab $(DEMO)/fabric.ibnetdiscover --html $(DEMO)/lab.html
	@echo '$$ snin plan $(DEMO)/fabric.ibnetdiscover --traffic permutation --lfts $(DEMO)/lfts --svg $(DEMO)/plan.svg'
	@$(SNIN) plan $(DEMO)/fabric.ibnetdiscover --traffic permutation --lfts $(DEMO)/lfts --svg $(DEMO)/plan.svg
	@$(SNIN) plan $(DEMO)/fabric.ibnetdiscover --traffic permutation --json > $(DEMO)/plan.json
	@echo '$$ snin verify $(DEMO)/fabric.ibnetdiscover --lfts $(DEMO)/lfts --plan $(DEMO)/plan.json'
	@$(SNIN) verify $(DEMO)/fabric.ibnetdiscover --lfts $(DEMO)/lfts --plan $(DEMO)/plan.json
	@echo '$$ snin plan $(DEMO)/fabric.ibnetdiscover --traffic permutation --routing dmodk    # the same, routed statically'
	@$(SNIN) plan $(DEMO)/fabric.ibnetdiscover --traffic permutation --routing dmodk
	@echo '$$ snin up clos:4,4,2 --script tools/snin/demo.script    # all daemons as processes, the controller killed'
	@$(SNIN) up clos:4,4,2 --script tools/snin/demo.script
	@echo 'To look at: $(DEMO)/lab.html and $(DEMO)/plan.svg'

# Without foreign programs: format, lints, unit tests, and the tests of the pure crates and of the command.
CHECKED := admission admission_windows check_credit check_owner check_routes codec exhaustive faults fuzz golden \
	hard_cases mesh modules packing_moves plan plan_slices promises properties recognition routing simulate slices \
	slices_fabric steps sweep tidy window_safety
check: toolchain deps-verbs
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace $(FEATURES) --all-targets --quiet -- -D warnings
	@rm -f target/not-run
	$(CARGO) test --workspace $(FEATURES) --quiet --no-fail-fast --lib --bin snin $(CHECKED:%=--test %)
	@$(NOT_RUN)

# Adds the programs that judge and the virtual machine, one boot for each test program that takes it: those tests run
# beside the others, which mostly wait. A test that fails does not keep the others from running.
TESTS := $(CARGO) test --workspace $(FEATURES) --quiet --no-fail-fast
# The same random cases for everyone who runs the tests; `make soak-properties` looks at others.
check test: export PROPTEST_RNG_SEED ?= 1
MACHINE := in_the_virtual_machine
test: toolchain space deps-verbs
	@rm -f target/not-run
	@# What judges, and the virtual machine, are installed while the lints run.
	@mkdir -p target; $(MAKE) --no-print-directory deps > target/deps.log 2>&1 & deps=$$!; \
	$(MAKE) --no-print-directory lint || { wait $$deps; exit 1; }; \
	wait $$deps || { cat target/deps.log; exit 1; }
	@# The programs that tests start: a test that has to build one itself builds what it depends on once more.
	$(CARGO) build --workspace $(FEATURES) --quiet --bins --lib --examples
	@# Of the programs only snin has tests inside; those of the others would each be one more to link.
	$(TESTS) --lib --bin snin --test '*' --no-run
	@# verbs_lab measures throughput, so it comes when nothing else runs.
	@failed=0; \
	$(TESTS) --test agents --test jobs_verbs --test lat --test verbs -- $(MACHINE) \
		> target/in-the-machine.log 2>&1 & machine=$$!; \
	$(TESTS) --lib --bin snin --test '*' -- --skip $(MACHINE) || failed=1; \
	$(TESTS) --doc || failed=1; \
	wait $$machine || failed=1; \
	cat target/in-the-machine.log; \
	$(TESTS) --test verbs_lab -- $(MACHINE) || failed=1; \
	exit $$failed
	@$(NOT_RUN)

NOT_RUN = [ ! -s target/not-run ] || \
	echo "not run, since ../shared is missing: $$(sort -u target/not-run | paste -sd' ')"

# Binaries, units, man pages, completions and example configurations. A configuration that is there stays.
install: toolchain deps-verbs
	$(CARGO) build --release --quiet --workspace $(FEATURES) --bins --lib
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/bin $(SNIN)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/sbin $(DAEMONS:%=target/release/%) target/release/snin-software-agents
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/lib/snin target/release/libsnin_preload.so target/release/libsnin_spank.so
	@rm -rf target/install && $(SNIN) man target/install/man
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man1 target/install/man/*.1
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/man/man8 target/install/man/*.8
	@for shell in bash zsh fish; do $(SNIN) completions $$shell > target/install/$$shell; done
	install -D -m 644 target/install/bash $(DESTDIR)$(BASHCOMPDIR)/snin
	@for daemon in $(DAEMONS); do ln -sf snin $(DESTDIR)$(BASHCOMPDIR)/$$daemon; done
	install -D -m 644 target/install/zsh $(DESTDIR)$(ZSHCOMPDIR)/_snin
	install -D -m 644 target/install/fish $(DESTDIR)$(FISHCOMPDIR)/snin.fish
	@for unit in $(UNITS); do mkdir -p $(DESTDIR)$(UNITDIR) && \
		sed 's#/usr/\(s\?bin\)/#$(PREFIX)/\1/#' $$unit > $(DESTDIR)$(UNITDIR)/$${unit##*/}; done
	@for daemon in $(DAEMONS); do \
		target/release/$$daemon --dump-config > target/install/$$daemon.toml; \
		install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/snin/examples target/install/$$daemon.toml; \
		config=$(DESTDIR)$(SYSCONFDIR)/snin/$${daemon#snin-}.toml; \
		[ -e $$config ] || install -D -m 600 target/install/$$daemon.toml $$config; done
	@[ -n "$(DESTDIR)" ] || echo 'installed; next: docs/operating.md'

DAEMONS := snin-sm snin-agent $(if $(wildcard controller/src/main.rs),snin-controller)
UNITS := $(wildcard sm/systemd/*.service controller/systemd/*.service endnode-agent/systemd/*.service \
	tools/slurm/systemd/*.service)

toolchain:
	@command -v $(CARGO) >/dev/null || { \
		echo 'no Rust toolchain: curl --proto =https --tlsv1.2 -sSf https://sh.rustup.rs | sh (1.95 or later)' >&2; exit 1; }

# Every benchmark at full size; each appends lines to target/bench/results.jsonl.
bench: bench-tables bench-bring-up bench-emulator bench-sm bench-sa bench-reconfiguration bench-failover bench-election bench-found bench-merge \
	bench-packing bench-jobs bench-window bench-verbs

# Today's programs beside an earlier commit's, in turns: make bench-against REV=HEAD~20 [ROUNDS=3]
# [BENCH=sm,packing,administration,window] [SNIN_CASE=36,18,18]; ends with 1 where a figure lost 10 % or more.
bench-against: deps-judges
	$(CARGO) run --release --quiet -p snin-benches --bin against -- "$(REV)" --rounds $(or $(ROUNDS),3) \
		$(if $(BENCH),--bench $(BENCH))

bench-tables: deps-build
	$(CARGO) run --release --quiet -p snin-benches --bin tables

bench-bring-up: deps-build
	$(CARGO) run --release --quiet -p snin-benches --bin bring_up

# What connections are granted on OpenSM's tables, engine by engine and LMC by LMC: an hour.
bench-found: deps-build deps-judges
	$(CARGO) run --release --quiet -p snin-benches --bin found

bench-emulator: deps-build
	$(CARGO) run --release --quiet -p snin-benches --bin emulator_mgmt
	$(CARGO) run --release --quiet -p snin-benches --bin emulator_data

# Subnet administration: the core with 11,664 hosts on the emulated fabric, the daemon beside OpenSM on ibsim.
bench-sa: deps-judges
	$(CARGO) build --release --quiet -p snin-sm
	$(CARGO) run --release --quiet -p snin-benches --bin administration

# The packer against rustworkx-core's bipartite edge colouring and an Euler split like Fastpass's.
bench-packing: deps-build
	$(CARGO) run --release --quiet -p snin-benches --bin packing

# 10,000 jobs on 11,664 hosts through the controller in virtual time; a job beside another, with slices and without;
# Slurm's hooks beside a controller that knows 500 jobs.
bench-jobs: deps-judges
	$(CARGO) build --release --quiet --bin snin --bin snin-controller
	$(CARGO) run --release --quiet -p snin-benches --bin jobs

# Leases of 100 and 648 agents over TLS, from a window's decision until all are confirmed, beside a bare echo.
bench-window: deps-build
	$(CARGO) run --release --quiet -p snin-benches --bin window

# Against OpenSM, on fabrics that ibsim simulates.
bench-sm: deps-judges
	$(CARGO) build --release --quiet -p snin-sm
	$(CARGO) run --release --quiet -p snin-benches --bin sm

# A switch taken away and put back, beside OpenSM: 648 hosts, and 200 random switches.
bench-reconfiguration: deps-judges
	$(CARGO) build --release --quiet -p snin-sm
	$(CARGO) run --release --quiet -p snin-benches --bin reconfiguration

# The master of 648 hosts killed SNIN_KILLS times (100), beside OpenSM to OpenSM SNIN_PEERS times (3): a quarter of
# an hour.
bench-failover: deps-judges
	$(CARGO) build --release --quiet -p snin-sm
	$(CARGO) run --release --quiet -p snin-benches --bin failover

# Two managers and etcd, SNIN_RUNS times (100): cold to consented, blacklisted to handed over, killed to new master:
# half an hour.
bench-election: deps-judges
	$(CARGO) build --release --quiet -p snin-sm --features etcd
	$(CARGO) run --release --quiet -p snin-benches --bin election

# snin lat and whole agents beside perftest, and perftest beside itself, in one virtual machine: ten minutes.
bench-verbs: deps
	$(CARGO) build --release --quiet -p snin $(FEATURES) --bin snin
	$(CARGO) run --release --quiet -p snin-benches $(FEATURES) --bin verbs

# What takes too long for every test run; each part says its seeds, and how far it is.
soak: soak-sm soak-merge soak-ibsim soak-packing soak-properties soak-rmpp soak-controller soak-up soak-agent

# 10,000 random fault scenarios; 10,000 fabrics whose repair is watched write by write; random sequences of
# events, MADs and texts; 100,000 random expected configurations, faults and consent; three managers that elect: all
# that can happen in 5 steps (a minute), and 10^6 random runs of 60 steps.
soak-sm: deps-build
	SNIN_SCENARIOS=10000 $(CARGO) test --release -p snin-sweep --test sweep -- --nocapture scenarios
	SNIN_REPAIRS=10000 $(CARGO) test --release -p snin-sweep --test sweep -- --nocapture states
	SNIN_FUZZ=2000 $(CARGO) test --release -p snin-sweep --test sweep -- --nocapture wire
	SNIN_STORMS=10000 $(CARGO) test --release -p snin-sm-core --test mastership -- --nocapture storm
	SNIN_CONFIGURATIONS=100000 $(CARGO) test --release -p snin-sm-core --test configuration random
	SNIN_ELECTION_DEPTH=5 SNIN_ELECTION_RUNS=1000000 $(CARGO) test --release -p snin-mastership --test election
	SNIN_FUZZ=2000000 $(CARGO) test --release -p snin-mad --test fuzz -- --nocapture
	SNIN_FUZZ=1000000 $(CARGO) test --release -p snin-sm-core --test administration -- --nocapture fuzz
	SNIN_FUZZ=1000000 $(CARGO) test --release -p snin-fabric --test fuzz -- --nocapture
	SNIN_FUZZ=10000 $(CARGO) test --release -p snin-emulator --test management -- --nocapture fuzz

# 10^6 random sets of subnet databases, each merged in two orders, merged again, and judged. SNIN_MERGES=10000 takes
# fewer, SNIN_SEED=1 says where they begin.
soak-merge: deps-build
	SNIN_MERGES=$(or $(SNIN_MERGES),1000000) \
		$(CARGO) test --release -p snin-sm-core --test merge -- --nocapture random

# 324 and 648 hosts, each subnet under its manager, cabled together in the emulator's server and pulled apart again, with
# sessions and without; then OpenSM's subnet on ibsim: tables, partitions and packets are judged, SMPs, writes and time
# printed.
bench-merge: deps-judges
	$(CARGO) build --release --quiet --bin snin-sm
	SNIN_JOIN="$(or $(SNIN_JOIN),clos:18,18,18 clos:36,18,18)" \
		$(CARGO) test --release -p snin --test emulate -- --nocapture --test-threads 1 joining
	SNIN_JOIN="$(or $(SNIN_JOIN),clos:18,18,18 clos:36,18,18)" \
		$(CARGO) test --release -p snin-sm --test ibsim -- --nocapture joined

# 10,000 things that happen to a fabric on ibsim - cables cut and joined, nodes that restart, 1 % lost - each put
# right by snin-sm before the next, and its memory watched. SNIN_EVENTS=500 takes fewer.
soak-ibsim: deps
	SNIN_EVENTS=$(or $(SNIN_EVENTS),10000) \
		$(CARGO) test --release -p snin-sm --test ibsim -- --nocapture whatever_happens

# RMPP with the kernel of the virtual machine as the other side: messages of 10,000 segments, in and out, and 20
# times 65 on a bad wire.
soak-rmpp: deps
	SNIN_SEGMENTS=10000 SNIN_SEEDS=20 $(CARGO) test --release -p snin $(FEATURES) --test lat -- --nocapture

# 10^8 packed connections, each link's owner judged after every call.
soak-packing: deps-build
	SNIN_PACKED=100000000 $(CARGO) test --release -p snin-controller-core --test packing_soak -- --nocapture

# Every property over random cases, SNIN_ROUNDS times (100) with other cases than the time before; the round is the seed.
PROPERTIES := codec software_port management data_plane promises admission properties check_routes check_credit check_owner
soak-properties: deps-verbs
	@for round in $$(seq 2 $$((1 + $(or $(SNIN_ROUNDS),100)))); do \
		echo "PROPTEST_RNG_SEED=$$round"; \
		PROPTEST_RNG_SEED=$$round $(CARGO) test --workspace $(FEATURES) --quiet --lib $(PROPERTIES:%=--test %) >target/properties.log 2>&1 \
			|| { cat target/properties.log; exit 1; }; done

# A controller killed 200 times at random moments under load; slices in the lab's worlds, 5,000 seeds.
soak-controller: deps-build
	SNIN_KILLS=$(or $(SNIN_KILLS),200) $(CARGO) test --release -p snin-controller --test daemon -- --nocapture kills
	SNIN_SEEDS=$(or $(SNIN_SEEDS),5000) $(CARGO) test --release -p snin-controller-core --test window_slices -- --nocapture

# 648 agents in a few processes, 60 windows, a cut in between; windows are as long as the machine needs.
WINDOW ?= 1s
soak-up: deps-build
	$(CARGO) build --release --quiet --bin snin --bin snin-sm --bin snin-controller --bin snin-software-agents
	$(SNIN) up clos:36,18,18 --window $(WINDOW) --script tools/snin/large.script

# Whole agents on real verbs, in the emulated virtual machine: 10,000 changes of tree under load, 8 minutes on a quiet
# machine; a mesh of 8 hosts and 4 trees made and torn down 1,000 times, 11 minutes. SNIN_CHANGES=300 and
# SNIN_MESHES=50 take fewer.
soak-agent: deps
	$(CARGO) build -p snin-agent $(FEATURES) --example echo
	SNIN_CHANGES=$(or $(SNIN_CHANGES),10000) SNIN_ONLY=changes_of_tree SNIN_LIMIT=7200 \
		$(CARGO) test -p snin-agent $(FEATURES) --test agents -- --nocapture
	SNIN_MESHES=$(or $(SNIN_MESHES),1000) SNIN_ONLY=a_mesh SNIN_LIMIT=7200 \
		$(CARGO) test -p snin-agent $(FEATURES) --test agents -- --nocapture

# A full disk ends a build with "Bus error" of the linker and nothing else.
DISK_GB := 6
space:
	@mkdir -p target; have=$$(df --output=avail --block-size=1G target | tail -1 | tr -d ' '); \
	used=$$(du --summarize --block-size=1G target | cut -f1); \
	[ $$((have + used)) -ge $(DISK_GB) ] || { \
		echo "make test: $(CURDIR)/target: $$have GB of disk are free, $(DISK_GB) are needed: free some" >&2; exit 1; }

# Each crate by itself, with and without its features: what one crate switches on must not be missing in another.
check-features: toolchain deps-verbs
	@for crate in $$($(CARGO) metadata --no-deps --format-version 1 | grep -o '"name":"snin[a-z-]*","version"' | cut -d'"' -f4); do \
		for features in "" $(FEATURES); do \
			echo "$$crate $$features"; \
			RUSTFLAGS="-D warnings" $(CARGO) check --quiet --target-dir target/features --package $$crate $$features || exit 1; \
		done; \
	done

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace $(FEATURES) --all-targets --quiet -- -D warnings
	@# What `make demo` and `cargo install` build: other features, and so other code.
	$(CARGO) clippy --workspace --quiet -- -D warnings
	$(CARGO) clippy --package snin --quiet -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace $(FEATURES) --no-deps --quiet

deps-build:
	@.ci/install $(BUILD_PACKAGES)

deps-verbs:
	@.ci/install $(BUILD_PACKAGES) $(VERBS_PACKAGES) $(SPANK_PACKAGES) $(ETCD_PACKAGES)

deps-judges:
	@.ci/install $(BUILD_PACKAGES) $(JUDGE_PACKAGES)

deps:
	@.ci/install $(BUILD_PACKAGES) $(VERBS_PACKAGES) $(SPANK_PACKAGES) $(ETCD_PACKAGES) $(JUDGE_PACKAGES) $(VM_PACKAGES)

deps-vm:
	@.ci/install $(BUILD_PACKAGES) $(VM_PACKAGES)

# A shell command in that machine: make vm RUN='ibv_devinfo'
vm: deps-vm
	@tools/vm/run --rxe 4 -- bash -c '$(RUN)'

# The lab on real verbs, in that machine: its report lands in target/lab. LAB is any Clos of a few hosts.
LAB ?= clos:4,4,2
lab:
	@.ci/install $(BUILD_PACKAGES) $(VERBS_PACKAGES) $(SPANK_PACKAGES) $(ETCD_PACKAGES) $(VM_PACKAGES)
	@echo 'building snin with real verbs' >&2
	@$(CARGO) build --release --quiet -p snin $(FEATURES) --bin snin
	@mkdir -p target/lab
	@tools/vm/run --limit 300 --out target/lab --with $(SNIN) -- \
		bash -c 'snin lab --verbs $(LAB) --json $$OUT/lab.json --html $$OUT/lab.html'
	@echo 'To look at: target/lab/lab.html and target/lab/lab.json'

# Jobs on real verbs, in that machine: srun of programs of MPICH and Open MPI on the trees of their slices, two jobs at
# once with links of their own and without. Three minutes; `make test` does the same.
lab-jobs: deps
	$(CARGO) build --quiet --workspace $(FEATURES) --bins --lib
	$(CARGO) test --workspace $(FEATURES) --test jobs_verbs -- --nocapture

clean:
	$(CARGO) clean
