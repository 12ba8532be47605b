# One screen; every target says what it does: make help.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

MODULES     := $(shell hack/modules.sh) test
FRAMEWORKS  := $(shell hack/modules.sh framework)
CONTROLLERS := $(shell hack/modules.sh framework controller)
$(if $(and $(FRAMEWORKS),$(CONTROLLERS)),,$(error versions.yaml cannot be read by hack/modules.sh))
BIN         := $(CURDIR)/bin
FOCUS       ?=
ATTACKS     ?=
BENCH       ?=
FUZZTIME    ?= 1m
PART        ?= 1/1
NAME        ?=
KIND        ?=
DRY_RUN     ?= true
PACKAGE     ?=
RECORD      ?= false
KEY         ?=
PLATFORMS   ?= linux/$(shell go env GOARCH)
KUBERNETES  ?= kubernetes-1.34
# Packages that are tested at a time: those with an API server mostly wait for it.
PACKAGES    ?= 4

# Packages are compiled alike wherever the clone is and whoever builds them, so that Go's cache serves all clones, tests and images.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)
export CGO_ENABLED := 0

.PHONY: help
help: ## Print what the targets do
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Seconds, with warm caches

.PHONY: demo
demo: $(BIN)/localcluster $(BIN)/image ## Start a local Kubernetes and train on it (on a fresh machine: minutes)
	hack/demo.sh

.PHONY: quick
quick: ## Test the job controller: its unit tests and the quick part of conformance
	go test -short ./common/... ./kit/...

.PHONY: down
down: $(BIN)/localcluster ## Remove the local cluster
	$(BIN)/localcluster down

.PHONY: cache
cache: $(BIN)/localcluster ## Print what is cached outside of the repository, and how large it is
	$(BIN)/localcluster cache

.PHONY: clean-cache
clean-cache: $(BIN)/localcluster ## Delete what is cached outside of the repository
	$(BIN)/localcluster cache --clear

.PHONY: generate
generate: $(BIN)/controller-gen $(BIN)/crd-ref-docs $(BIN)/kustomize $(BIN)/trimcrd $(BIN)/reference $(BIN)/registry ## Generate what is generated: deep copies, CRDs, references, lists of modules
	hack/generate.sh $(CONTROLLERS)

.PHONY: new-framework
new-framework: ## Write a framework to start from: a module, its installation and an example [NAME=jax KIND=JAXTrainingJob]
	cd hack/tools && GOWORK=off go run ./newframework -root $(CURDIR) -name "$(NAME)" -kind "$(KIND)"
	$(MAKE) generate
	hack/tidy.sh $$(hack/modules.sh library) $(NAME)

.PHONY: tidy
tidy: ## Tidy the go.mod of every module
	hack/tidy.sh $(MODULES)
	cd hack/tools && GOWORK=off go mod tidy
	cd hack/cosign && GOWORK=off go mod tidy
	cd hack/prose && GOWORK=off go mod tidy

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/vale ## Lint every module, and the wording of comments and documents
	hack/lint.sh $(MODULES)

.PHONY: verify
verify: generate tidy lint ## Generate, tidy and lint; fail if that changes the tree
	@changes=$$(git status --porcelain); if [ -n "$$changes" ]; then \
		git --no-pager diff; echo "Error: the tree is not clean:"; echo "$$changes"; exit 1; fi

.PHONY: images
images: $(BIN)/localcluster $(BIN)/image ## Build the controllers' images into bin/ [PLATFORMS="linux/amd64 linux/arm64"]
	hack/images.sh "$(PLATFORMS)" $(CONTROLLERS)

.PHONY: charts
charts: $(BIN)/helm $(BIN)/kustomize ## Make a Helm chart of each controller in bin/charts
	hack/charts.sh $(CONTROLLERS)

.PHONY: release
release: $(BIN)/helm $(BIN)/kustomize ## Show what a release of a module changes, or make it [MODULE=pytorch VERSION=v0.2.0 DRY_RUN=true]
	cd hack/tools && GOWORK=off go run ./release -root $(CURDIR) -module "$(MODULE)" -version "$(VERSION)" -dry-run=$(DRY_RUN)

.PHONY: sign
sign: ## Sign the release of a module with a key of cosign: its files, its image and their provenance [MODULE=pytorch KEY=cosign.key]
	cd hack/tools && GOWORK=off go build -o $(BIN)/sign ./sign
	$(BIN)/sign -module "$(MODULE)" -key "$(KEY)"

##@ Minutes

.PHONY: test
# The first three packages read files that Go's cache does not know of.
test: $(BIN)/localcluster $(BIN)/cosign charts ## Run the unit and integration tests of every module
	export KUBEBUILDER_ASSETS="$$($(BIN)/localcluster assets)"; \
		go test -count=1 ./test/repository ./test/mutants ./test/upgrade & uncached=$$!; status=0; \
		go test -p $(PACKAGES) -timeout 30m $$(go list $(MODULES:%=./%/...) | grep -vE '/test/(repository|mutants|style|upgrade)$$') || status=1; \
		wait $$uncached || status=1; exit $$status
	cd hack/tools && GOWORK=off go test ./...

.PHONY: integration
integration: $(BIN)/localcluster ## Run the integration tests on the oldest Kubernetes [CONTROLLERS=pytorch KUBERNETES=kubernetes-1.34]
	export KUBEBUILDER_ASSETS="$$($(BIN)/localcluster --kubernetes $(KUBERNETES) assets)"; go test -p $(PACKAGES) -timeout 30m $(CONTROLLERS:%=./%/test) ./test/upgrade

.PHONY: fuzz
fuzz: ## Look for input that is handled wrongly: jobs, queues, and what others send [FUZZTIME=1m]
	FUZZTIME=$(FUZZTIME) hack/fuzz.sh

.PHONY: fuzz-turn
fuzz-turn: ## Fuzz one target, which the tree selects [FUZZTIME=1m]
	FUZZTIME=$(FUZZTIME) hack/fuzz.sh turn

.PHONY: tenants
tenants: ## Attack the controllers as a tenant of a shared cluster [ATTACKS="pytorch && caches"]
	TENANTS=true go test -count=1 -timeout 60m -v ./test/tenants -ginkgo.label-filter="$(ATTACKS)"

.PHONY: mutation
mutation: ## Put small bugs into what decides, and print those that no unit test notices [PACKAGE=common/policy RECORD=false]
	go run ./test/cmd/mutation --record=$(RECORD) $(PACKAGE)

.PHONY: outside
outside: $(BIN)/localcluster $(BIN)/pack ## Build and test each module as others get it, from a module proxy
	hack/outside.sh

.PHONY: e2e
e2e: images charts $(BIN)/ginkgo ## Run the end-to-end tests on the local cluster or $KUBECONFIG [FOCUS="always || pytorch"] (all: half an hour)
	hack/e2e.sh "$(FOCUS)" $(CONTROLLERS)

.PHONY: ci
ci: ## Run what each change must pass: the stages of each run, those that failed, and a turn that the tree selects (25 minutes)
	go run ./test/cmd/stages once

##@ Up to hours

.PHONY: explore
explore: ## Explore all lives of small jobs, with everything that may go wrong
	go test ./kit/conformance $(FRAMEWORKS:%=./%) -run '(PlainKind|Conformance)/small' -explore.everything -v -timeout 0

.PHONY: mutants
mutants: ## Check that the exploration of small jobs finds bugs that are put into the job controller [PART=1/6]
	MUTANTS=$(PART) go test -count=1 -timeout 60m -v ./test/mutants

.PHONY: bench
bench: ## Measure the controllers beside batch/v1 Job, for docs/performance.md [BENCH=--quick: a minute]
	go run ./test/cmd/bench $(BENCH)

.PHONY: test-all
test-all: ## Run every check there is; run it again to repeat what has not passed
	go run ./test/cmd/stages all

# go build finds out by itself what is up to date.
.PHONY: FORCE
$(BIN)/localcluster: FORCE
	go build -o $@ ./test/cmd/localcluster
$(BIN)/ginkgo: FORCE
	cd test && go build -o $@ github.com/onsi/ginkgo/v2/ginkgo
$(BIN)/image $(BIN)/pack $(BIN)/reference $(BIN)/registry $(BIN)/trimcrd: $(BIN)/%: FORCE
	cd hack/tools && GOWORK=off go build -o $@ ./$*
$(BIN)/controller-gen: PACKAGE := sigs.k8s.io/controller-tools/cmd/controller-gen
$(BIN)/crd-ref-docs: PACKAGE := github.com/elastic/crd-ref-docs
$(BIN)/golangci-lint: PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BIN)/helm: PACKAGE := helm.sh/helm/v4/cmd/helm
$(BIN)/kustomize: PACKAGE := sigs.k8s.io/kustomize/kustomize/v5
$(BIN)/controller-gen $(BIN)/crd-ref-docs $(BIN)/golangci-lint $(BIN)/helm $(BIN)/kustomize: FORCE
	cd hack/tools && GOWORK=off go build -o $@ $(PACKAGE)

$(BIN)/cosign: FORCE
	cd hack/cosign && GOWORK=off go build -o $@ github.com/sigstore/cosign/v3/cmd/cosign

# It parses Go with a library in C.
$(BIN)/vale: FORCE
	cd hack/prose && GOWORK=off CGO_ENABLED=1 go build -o $@ github.com/vale-cli/vale/v3/cmd/vale
