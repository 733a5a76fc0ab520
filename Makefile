# Every target is one command that can be typed by hand.
GO ?= go

.PHONY: all browser build test race lint fuzz bench growth soak outages golden conformance interop check long newcomer

all: build

build:          ## the binary, in bin/, as it is released
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/everline ./cmd/everline

test:           ## everything: installs what it needs, then race, conformance and interop
	./scripts/test.sh

race:           ## all Go tests under the race detector
	$(GO) test -race ./...

lint:           ## golangci-lint with .golangci.yml, from its own module
	$(GO) tool -modfile=tools/go.mod golangci-lint run

fuzz:           ## each fuzzer for FUZZTIME (30s)
	./scripts/fuzz.sh

bench:          ## the Go benchmarks and a short load, compared with the last run here (EACH, REPS)
	./scripts/bench.sh

growth:         ## how cost grows with servers, clients and sizes; draws the graphs of the docs (EACH, REPS)
	./scripts/growth.sh

soak:           ## load and faults for an hour; fails if something grows (SOAK=1h)
	./scripts/soak.sh

outages:        ## twenty outages of 5 to 400 s at the same time; writes the table of the docs
	$(GO) run ./bench outages -write docs/reference/outages.md

golden:         ## rewrite golden files and transcripts
	./scripts/golden.sh

conformance:    ## the official suite against everline
	./scripts/conformance.sh

browser:        ## the page in a browser, and that it is what ui builds (IMAGES=1: the pictures of the docs)
	./scripts/browser.sh

interop:        ## real npm servers and clients through everline
	./scripts/interop.sh

long:           ## a proof that takes minutes: NAME=crossing, edits, history, kill, logins, mutants, parking, restarts, sessions or stress
	./scripts/long.sh "$(NAME)"

newcomer:       ## from a fresh clone to a call through a linked client, timed (FRESH=1)
	./scripts/newcomer.sh

check:          ## format, vet on three systems, and the quick tests
	./scripts/check.sh
