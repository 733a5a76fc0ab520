# Every target is one command that can be typed by hand.
GO ?= go

.PHONY: all build test race lint fuzz bench golden conformance interop mutants check

all: build

build:          ## the binary, in bin/
	$(GO) build -o bin/everline ./cmd/everline

test:           ## everything: installs what it needs, then race, conformance and interop
	./scripts/test.sh

race:           ## all Go tests under the race detector
	$(GO) test -race ./...

lint:           ## golangci-lint with .golangci.yml, from its own module
	$(GO) tool -modfile=tools/go.mod golangci-lint run

fuzz:           ## each fuzzer for FUZZTIME (30s)
	./scripts/fuzz.sh

bench:          ## the Go benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

golden:         ## rewrite golden files and transcripts
	./scripts/golden.sh

conformance:    ## the official suite against everline
	./scripts/conformance.sh

interop:        ## real npm servers and clients through everline
	./scripts/interop.sh

mutants:        ## plant bugs in the lifecycle core and see the tests fail
	$(GO) run ./internal/lifecycle/mutants

check:          ## format, vet on three systems, and the quick tests
	./scripts/check.sh
