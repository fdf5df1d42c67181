# Everything here needs Go, and for the tests Node.js with npm and Debian's apt-get and dpkg.
# Tools come from tools/go.mod, real peers from `make peers`; nothing is installed system-wide.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-builtin-rules

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
LDFLAGS := -s -w -X main.version=$(VERSION)
TOOL    := $(GO) tool -modfile=tools/go.mod

# The test module's tools run from inside it, and see the drills.
TOOL_IN_TEST := $(GO) tool -modfile=../tools/go.mod

# The vulnerability database, as a module; raise it to learn of newer reports.
VULNDB := golang.org/x/vulndb@v0.0.0-20261105234957-e22db6528018

FUZZTIME   ?= 10s
BENCH      ?= .
BENCHPKG   ?= ./...
BENCHCOUNT ?= 3
# Extra flags of `go test`, for instance TESTFLAGS='-run Azurite -v'.
TESTFLAGS  ?=

##@ Every day

.PHONY: build
build: ## build bin/qwatch
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/qwatch ./cmd/qwatch

.PHONY: image
image: ## the container image as an OCI layout in bin/image, without a container engine
	cd tools && $(GO) run ./image -o ../bin/image -version '$(or $(VERSION),dev)' -revision '$(shell git rev-parse HEAD 2>/dev/null)' ..

.PHONY: test
test: format vet unit build integration ## all tests: formatting, vet, unit tests, then real peers

.PHONY: unit
unit: ## the main module's tests, which need nothing but Go
	$(GO) test -race -shuffle=on -timeout 20m $(TESTFLAGS) ./...

.PHONY: integration
integration: peers chart ## the tests on real peers: Azurite, Prometheus, Chromium
	cd test && $(GO) test -race -shuffle=on -p 1 -timeout 30m $(TESTFLAGS) ./...

# Without -race: there is one goroutine, and most of Helm's libraries are built so for vet already.
.PHONY: chart
chart: ## the Helm chart's renders, by Helm's own code
	cd test/chart && $(GO) test -shuffle=on -timeout 10m $(TESTFLAGS) ./...

.PHONY: peers
peers: ## install the real peers into $XDG_CACHE_HOME/qwatch
	bash test/peer/install.sh

##@ Before sending a change

.PHONY: check
check: gofumpt vet fix staticcheck errcheck deadcode govulncheck generated modules ## every linter and currency check

.PHONY: format
format:
	@bad=$$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0r gofmt -l); \
	if [[ -n $$bad ]]; then printf 'not formatted (run gofmt -w):\n%s\n' "$$bad" >&2; exit 1; fi

.PHONY: gofumpt
gofumpt:
	@bad=$$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0r $(TOOL) gofumpt -l); \
	if [[ -n $$bad ]]; then printf 'not formatted (run make fmt):\n%s\n' "$$bad" >&2; exit 1; fi

.PHONY: fmt
fmt: ## format every Go file
	git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0r $(TOOL) gofumpt -w

.PHONY: vet
vet:
	$(GO) vet ./...
	cd test && $(GO) vet -tags drill ./...
	cd tools && $(GO) vet ./...

.PHONY: fix
fix:
	$(GO) fix -diff ./...
	cd test && $(GO) fix -diff -tags drill ./...

.PHONY: staticcheck
staticcheck:
	$(TOOL) staticcheck ./...
	cd test && $(TOOL_IN_TEST) staticcheck -tags drill ./...
	cd test/chart && $(GO) tool -modfile=../../tools/go.mod staticcheck ./...
	cd tools && $(TOOL_IN_TEST) staticcheck ./...

# Tests are left out: they wait on channels of errors, and staticcheck forbids `_ = <-done`.
.PHONY: errcheck
errcheck:
	$(TOOL) errcheck -ignoretests -exclude tools/errcheck.txt ./...
	cd test && $(TOOL_IN_TEST) errcheck -ignoretests -tags drill -exclude ../tools/errcheck.txt ./...

.PHONY: deadcode
deadcode:
	@dead=$$($(TOOL) deadcode -test ./...); \
	if [[ -n $$dead ]]; then printf '%s\n' "$$dead" >&2; exit 1; fi
	@cd test && dead=$$($(TOOL_IN_TEST) deadcode -test -tags drill -filter 'qwatch/test' ./...); \
	if [[ -n $$dead ]]; then printf '%s\n' "$$dead" >&2; exit 1; fi

.PHONY: govulncheck
govulncheck:
	bash tools/vuln.sh $(VULNDB) $(GO)

.PHONY: generate
generate: ## write the generated documents again
	$(GO) generate ./...

.PHONY: generated
generated:
	bash tools/generated.sh $(GO)

.PHONY: modules
modules:
	for dir in . test test/chart test/keda test/kubernetes tools; do (cd $$dir && $(GO) mod tidy -diff && $(GO) mod verify); done

##@ Now and then

.PHONY: bench
bench: ## benchmarks; BENCHPKG and BENCH pick, BENCHCOUNT repeats
	mkdir -p bin
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(BENCHCOUNT) -timeout 60m $(BENCHPKG) | tee bin/bench.txt
	$(TOOL) benchstat bin/bench.txt

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME each
	bash tools/fuzz.sh $(FUZZTIME) $(GO)

.PHONY: e2e
e2e: peers ## the long drills of the test module, beyond what `make test` runs
	cd test/keda && $(GO) build -o ../../bin/kedaclient . # minutes at first, and not within the time of the tests
	cd test && $(GO) test -race -tags drill -run Drill -p 1 -timeout 30m -v $(TESTFLAGS) .
	$(MAKE) cluster

.PHONY: cluster
cluster: peers ## the drills of the Helm chart on Helm, a Kubernetes API server and KEDA; builds them at first
	GO=$(GO) bash test/kubernetes/install.sh
	cd test/kubernetes && $(GO) test -mod=mod -tags drill -run Drill -p 1 -timeout 30m -v $(TESTFLAGS) .

.PHONY: clean
clean: ## remove what make built; the peers in the cache stay
	rm -rf bin

.PHONY: help
help:
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z0-9-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
