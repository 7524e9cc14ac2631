# The targets that .ci/run is made of. Each runs alone, on a machine that has Go and the packages that
# .ci/install lists for it. `make` prints them. A target whose name ends in -gate is the form of a target that the gate makes: a
# sample of it, or, for the tests, all of them with a second run of those that fail.
#
#	make test             what a change needs first
#	make gate             what must pass before a merge, in minutes
#	make nightly          everything

export GOFLAGS ?= -buildvcs=false

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
ACTIONLINT  := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
export GOTESTSUM := gotest.tools/gotestsum@v1.13.0

# The race detector does not understand memory that processes share. internal/archtest only reads source.
NORACE := ^github.com/ibrun/ibrun/(fabric/shm|fabric/auto|internal/shm|internal/archtest)$$

# The packages in which goroutines and peers exchange messages, the slowest first.
PROTOCOLS := ./fabric/tcp ./mpi/internal/proto ./fabric/hook ./cmd/ibrun/internal/control ./fabric/mem ./mpi/internal/match ./internal/ranklink \
	./cmd/ibrun/internal/launch/coordinator ./cmd/ibrun/internal/launch/agent

# The packages in which goroutines wait for messages.
WAITING := ./mpi ./mpi/internal/proto ./fabric/mem ./fabric/shm ./fabric/tcp ./fabric/auto

# A sample of the packages whose tests have long forms (IBRUN_SOAK=1).
SOAK := ./mpi/internal/... ./fabric/tcp ./fabric/auto ./mpi/mpitest ./cmd/ibrun/internal/control ./cmd/ibrun/internal/launch/...

# The tests of mpi that run with every number of ranks, in which every rank dies, or which wait in all ways. The long form of
# IdupBesideAllreduce takes three minutes, those of the others one each.
SWEEPS := Death|Processes|LeftProcesses|FinalizeEarly|CollectiveSizes|NeighborCollectives|ComparedCollectives|ConcurrentCreation|ContextIDs|Waits|IdupBesideAllreduce|Freed|FinalizedRequests|CheckedMemory

# The tests of mpi that expect a rendezvous for long messages.
RENDEZVOUS := ^Test(Freed(Requests|RequestsChecked|RequestsOver|Intercomm|Memory)|FinalizedRequests|Thresholds)$$

# The packages with assembly for arm64, and those whose code depends most on the order and the width of words.
ASSEMBLY := ./mpi/internal/reduction ./mpi/internal/datatype

# The package that handles the messages between the nodes of a job.
NODES := ./cmd/ibrun/internal/launch/coordinator

.DEFAULT_GOAL := help
.PHONY: help gate nightly download build test test-gate readme readme-gate pages transports processors adapters conformance compare smoke clusters clusters-gate kubernetes monitoring schemas json lint vuln cross static image release race race-gate fuzz fuzz-nodes fuzz-nodes-gate bench-once guests guests-gate soak bench bench-guest pictures api migrating

help: ## print the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 16

gate: ## what must pass before a merge (installs packages, so as root)
	bash .ci/run

nightly: ## everything (installs packages, so as root)
	bash .ci/run nightly

download: ## the modules and tools that the gate needs from a module proxy
	go mod download
	go mod tidy -diff
	for tool in $(STATICCHECK) $(ACTIONLINT) $(GOTESTSUM); do out=$$(go install -n $$tool 2>&1) || { echo "$$out"; exit 1; }; done

build: ## compile all packages, without cgo and with it
	CGO_ENABLED=0 go build ./...
	CGO_ENABLED=1 go build ./...

test: ## all tests, the seeds of every fuzz target, the architecture tests
	go test ./...

# Lint vets everything. Three packages at a time, because some tests wait most of the time.
test-gate: ## the same; tests that fail are run again, and named
	bash .ci/gotest -vet=off -p 3 -timeout 8m -- ./...

readme: ## type the commands of README.md and docs that need only Go
	bash .ci/readme

readme-gate: ## type the commands of README.md
	bash .ci/readme README.md

pages: ## type the commands of docs that take minutes or an hour, as root
	IBRUN_DOCS=bench,soak go test -count=1 -timeout 170m -v -run '^TestTyped$$' ./docs

transports: ## tests of mpi over TCP, over shared memory and TCP, and with a random protocol for each message
	IBRUN_TRANSPORT=tcp IBRUN_TCP_INTERFACES=lo bash .ci/gotest -count=1 -- ./mpi
	IBRUN_TRANSPORT=shm,tcp IBRUN_TCP_INTERFACES=lo bash .ci/gotest -count=1 -- ./mpi
	IBRUN_PROTOCOL=random:1 bash .ci/gotest -count=1 -skip '$(RENDEZVOUS)' -- ./mpi
	IBRUN_PROTOCOL=random:2 IBRUN_TRANSPORT=tcp IBRUN_TCP_INTERFACES=lo bash .ci/gotest -count=1 -skip '$(RENDEZVOUS)' -- ./mpi

processors: ## tests of what waits for messages, and a benchmark of many goroutines, with 1, 2 and 8 processors
	for n in 1 2 8; do GOMAXPROCS=$$n bash .ci/gotest -count=1 -p 2 -- $(WAITING) || exit; done
	bash .ci/goroutines

adapters: ## the suites of verbs and fabric/rdma, and whole jobs, on every kind of adapter that is simulated
	IBRUN_SOAK=1 bash .ci/gotest -count=1 -timeout 14m -run '^Test(Mock|Simulated(Unusual|ShortQueues)Conformance|Adapter)' -- ./verbs/verbstest ./fabric/rdma ./fabric/auto ./cmd/ibrun

conformance: ## test every statement of the standard that is listed, and write docs/conformance.md
	go run ./internal/conformance

compare: ## print the tests that the nightly runs and the gate does not
	bash .ci/compare

smoke: ## run jobs with reports, metrics and hardware resources
	bash .ci/smoke

clusters: ## jobs under Slurm, ssh, and the launchers of MPICH and Open MPI (as root)
	bash .ci/clusters

clusters-gate: ## a job under each launcher (as root)
	bash .ci/clusters gate

kubernetes: ## the manifests against the types of Kubernetes; their commands in root directories from scratch (as root)
	cd deploy/kubernetes/check && go mod tidy -diff && test -z "$$(gofmt -l .)" && go vet ./... && go test -count=1 ./...

monitoring: ## the dashboards against the types of Grafana; the compose file and what it mounts
	cd deploy/monitoring/check && go mod tidy -diff && test -z "$$(gofmt -l .)" && go vet ./... && go test -count=1 ./...

schemas: ## write docs/schemas after a change of types that commands print as JSON
	IBRUN_WRITE_SCHEMAS=1 go test -run '^TestSchema$$' ./cmd/ibrun/internal/... ./mpi/internal/coll

json: ## what commands print as JSON against docs/schemas
	cd docs/schemas/check && go mod tidy -diff && test -z "$$(gofmt -l .)" && go vet ./... && go test -count=1 ./...

lint: ## go mod tidy, gofmt, the rules of the architecture, go vet, staticcheck, actionlint
	go mod tidy -diff
	test -z "$$(gofmt -l .)"
	go test ./internal/archtest
	go vet ./...
	go run $(STATICCHECK) ./...
	go run $(ACTIONLINT)

vuln: ## known vulnerabilities in what is called; needs https://vuln.go.dev, so only .github/workflows runs it
	bash .ci/vuln

cross: ## compile everything, tests included, for other systems; test the assembly for arm64 (QEMU)
	for target in linux/arm64 darwin/arm64; do for tool in build vet; do \
		CGO_ENABLED=0 GOOS=$${target%/*} GOARCH=$${target#*/} go $$tool ./... || exit 1; done; done
	CGO_ENABLED=0 GOARCH=arm64 go test -exec qemu-aarch64 $(ASSEMBLY)

static: ## run static programs in an empty root directory
	bash .ci/static

image: ## the root directory of the images in deploy/kubernetes, in dist/image
	bash .ci/image

release: ## static binaries, checksums and an SBOM in dist/
	bash .ci/release

# A program with the race detector waits for a second before it exits, unless GORACE says otherwise. The tests of cmd/ibrun may
# take longer than the 10 minutes that are the default.
race: ## tests with the race detector
	packages=$$(go list ./...) && CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 \
		bash .ci/gotest -race -vet=off -timeout 20m -- $$(echo "$$packages" | grep -vE '$(NORACE)')

race-gate: ## the same, for the packages with protocols
	CGO_ENABLED=1 GORACE=atexit_sleep_ms=0 bash .ci/gotest -race -vet=off -timeout 6m -- $(PROTOCOLS)

fuzz: ## run every fuzz target FUZZTIME (20000x)
	bash .ci/fuzz

fuzz-nodes: ## mutate the messages between the nodes of a job, in each state of their receiver, for an hour
	end=$$(($$(date +%s) + 3600)); while [ $$(date +%s) -lt $$end ]; do FUZZPACKAGES=$(NODES) FUZZTIME=400000x bash .ci/fuzz || exit; done

fuzz-nodes-gate: ## the same for 100,000 messages, which takes a minute
	FUZZPACKAGES=$(NODES) FUZZTIME=50000x bash .ci/fuzz

bench-once: ## run every benchmark once
	go test -run=NONE -bench=. -benchtime=1x ./...

guests: ## tests with a Soft-RoCE device, in guests (QEMU)
	bash .ci/guests

guests-gate: ## pi over RDMA and a test of each layer, in one guest
	bash .ci/guests gate

soak: ## a sample of the long forms of tests
	IBRUN_SOAK=1 bash .ci/gotest -count=1 -timeout 30m -- $(SOAK)
	IBRUN_SOAK=1 bash .ci/gotest -count=1 -timeout 30m -run '^Test($(SWEEPS))' -- ./mpi

bench: ## compare with Open MPI and MPICH
	bash .ci/bench

bench-guest: ## compare with perftest, over Soft-RoCE in a guest
	bash .ci/bench-guest

pictures: ## draw the pictures in docs/images from real runs
	bash .ci/pictures

api: ## write internal/apitest/api.txt after a deliberate change of the public API
	go test ./internal/apitest -update

migrating: ## write docs/migrating.md after a change of the table of other launchers' flags
	go test ./cmd/ibrun/internal/cli/foreign -run TestPage -update
