# One screen; every target says what it does: make help.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

MODULES     := common pytorch tensorflow deepspeed tensorboard scheduler test
FRAMEWORKS  := pytorch tensorflow deepspeed
CONTROLLERS := $(FRAMEWORKS) tensorboard scheduler
BIN         := $(CURDIR)/bin
FOCUS       ?=
BENCH       ?=
FUZZTIME    ?= 1m
PART        ?= 1/1
DRY_RUN     ?= true
PLATFORMS   ?= linux/$(shell go env GOARCH)
KUBERNETES  ?= kubernetes-1.34

.PHONY: help
help: ## Say what the targets do
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: images ## Start a local Kubernetes and train on it, from nothing to Succeeded
	hack/demo.sh

.PHONY: test
test: $(BIN)/localcluster charts ## Run the unit and integration tests of every module
	export KUBEBUILDER_ASSETS="$$($(BIN)/localcluster assets)"; go test -timeout 30m $(foreach m,$(MODULES),./$m/...); go test -count=1 ./test/repository ./test/mutants ./test/upgrade
	cd hack/tools && GOWORK=off go test ./...

.PHONY: integration
integration: $(BIN)/localcluster ## Run the integration tests on the oldest Kubernetes [KUBERNETES=kubernetes-1.34]
	export KUBEBUILDER_ASSETS="$$($(BIN)/localcluster --kubernetes $(KUBERNETES) assets)"; go test -timeout 30m $(CONTROLLERS:%=./%/test) ./test/upgrade

.PHONY: bench
bench: ## Measure the controllers beside batch/v1 Job, for docs/performance.md; takes an hour or more [BENCH=--quick]
	go run ./test/cmd/bench $(BENCH)

.PHONY: fuzz
fuzz: ## Look for jobs that a controller makes something wrong of [FUZZTIME=1m]
	for c in $(FRAMEWORKS); do (cd $$c && go test -run '^$$' -fuzz FuzzSpec -fuzztime $(FUZZTIME) -fuzzminimizetime 10x .); done

.PHONY: explore
explore: ## Look at all lives of small jobs, with all that may go wrong; takes an hour
	for c in $(FRAMEWORKS); do (cd $$c && go test -run 'Conformance/small' -explore.everything -v -timeout 0 .); done

.PHONY: mutants
mutants: ## Check that the exploration of small jobs finds bugs that are put into the engine [PART=1/1]
	MUTANTS=$(PART) go test -count=1 -timeout 60m -v ./test/mutants

.PHONY: outside
outside: $(BIN)/localcluster $(BIN)/pack ## Build and test each module as others get it, from a module proxy
	hack/outside.sh

.PHONY: release
release: $(BIN)/helm $(BIN)/kustomize ## Show what a release of a module changes, or make it [MODULE=pytorch VERSION=v0.2.0 DRY_RUN=true]
	cd hack/tools && GOWORK=off go run ./release -root $(CURDIR) -module "$(MODULE)" -version "$(VERSION)" -dry-run=$(DRY_RUN)

.PHONY: e2e
e2e: images charts ## Run the end-to-end tests on the local cluster or $KUBECONFIG [FOCUS=label]
	hack/e2e.sh "$(FOCUS)" $(CONTROLLERS)

.PHONY: down
down: $(BIN)/localcluster ## Remove the local cluster
	$(BIN)/localcluster down

.PHONY: images
images: $(BIN)/localcluster $(BIN)/image ## Build the controllers' images into bin/ [PLATFORMS="linux/amd64 linux/arm64"]
	hack/images.sh "$(PLATFORMS)" $(CONTROLLERS)

.PHONY: charts
charts: $(BIN)/helm $(BIN)/kustomize ## Make a Helm chart of each controller in bin/charts
	hack/charts.sh $(CONTROLLERS)

.PHONY: generate
generate: $(BIN)/controller-gen $(BIN)/crd-ref-docs $(BIN)/trimcrd $(BIN)/reference ## Write the generated code, CRDs and references anew
	hack/generate.sh $(CONTROLLERS)

.PHONY: tidy
tidy: ## Tidy the go.mod of every module
	hack/tidy.sh $(MODULES)
	cd hack/tools && GOWORK=off go mod tidy

.PHONY: lint
lint: $(BIN)/golangci-lint ## Lint every module
	for m in $(MODULES); do (cd $$m && $(BIN)/golangci-lint run ./...); done
	cd hack/tools && GOWORK=off $(BIN)/golangci-lint run ./...

.PHONY: verify
verify: generate tidy lint ## Regenerate, tidy and lint; fail if that changes the tree
	@changes=$$(git status --porcelain); if [ -n "$$changes" ]; then \
		git --no-pager diff; echo "Error: the tree is not clean:"; echo "$$changes"; exit 1; fi

# go build finds out by itself what is up to date.
.PHONY: FORCE
$(BIN)/localcluster: FORCE
	go build -o $@ ./test/cmd/localcluster
$(BIN)/image $(BIN)/pack $(BIN)/reference $(BIN)/trimcrd: $(BIN)/%: FORCE
	cd hack/tools && GOWORK=off go build -o $@ ./$*
$(BIN)/controller-gen: PACKAGE := sigs.k8s.io/controller-tools/cmd/controller-gen
$(BIN)/crd-ref-docs: PACKAGE := github.com/elastic/crd-ref-docs
$(BIN)/golangci-lint: PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BIN)/helm: PACKAGE := helm.sh/helm/v4/cmd/helm
$(BIN)/kustomize: PACKAGE := sigs.k8s.io/kustomize/kustomize/v5
$(BIN)/controller-gen $(BIN)/crd-ref-docs $(BIN)/golangci-lint $(BIN)/helm $(BIN)/kustomize: FORCE
	cd hack/tools && GOWORK=off go build -o $@ $(PACKAGE)
