# `make help` describes the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

MODULES     := $(shell hack/modules.sh) test
FRAMEWORKS  := $(shell hack/modules.sh framework)
CONTROLLERS := $(shell hack/modules.sh framework controller)
CLIENT      := $(shell hack/modules.sh client)
$(if $(and $(FRAMEWORKS),$(CONTROLLERS),$(CLIENT)),,$(error versions.yaml cannot be read by hack/modules.sh))
BIN         := $(CURDIR)/bin
# The programs in hack/tools that only releases need.
RELEASE     := client release sbom sign
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
# The number of packages that are tested at a time. Packages with an API server spend most of the time waiting for it.
PACKAGES    ?= 4

# All clones, tests and images compile packages with the same settings, so they share Go's build cache.
export GOFLAGS := $(strip $(filter-out -trimpath,$(shell go env GOFLAGS)) -trimpath)
export CGO_ENABLED := 0

.PHONY: help
help: ## Print the targets
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ Seconds, with warm caches

.PHONY: demo
demo: $(BIN)/localcluster $(BIN)/image ## Start a local Kubernetes and train on it (minutes on a new machine)
	hack/demo.sh

.PHONY: quick
quick: ## Test the job controller: its unit tests and the quick part of conformance
	go test -short ./common/... ./kit/...

.PHONY: down
down: $(BIN)/localcluster ## Remove the local cluster
	$(BIN)/localcluster down

.PHONY: cache
cache: $(BIN)/localcluster ## Print the folders of the cache outside of the repository, and their sizes
	$(BIN)/localcluster cache

.PHONY: clean-cache
clean-cache: $(BIN)/localcluster ## Delete the cache outside of the repository
	$(BIN)/localcluster cache --clear

.PHONY: generate
generate: $(BIN)/controller-gen $(BIN)/crd-ref-docs $(BIN)/kustomize $(BIN)/trimcrd $(BIN)/reference $(BIN)/registry $(BIN)/surface ## Generate deep copies, CRDs, references and lists of modules
	hack/generate.sh $(CONTROLLERS)

.PHONY: new-framework
new-framework: ## Create a module for a new framework, with manifests and an example [NAME=jax KIND=JAXTrainingJob]
	cd hack/tools && GOWORK=off go run ./newframework -root $(CURDIR) -name "$(NAME)" -kind "$(KIND)"
	$(MAKE) generate
	hack/tidy.sh $$(hack/modules.sh) test

.PHONY: tidy
tidy: ## Tidy the go.mod of every module
	hack/tidy.sh $(MODULES)
	cd hack/tools && GOWORK=off go mod tidy
	cd hack/cosign && GOWORK=off go mod tidy
	cd hack/krew && GOWORK=off go mod tidy
	cd hack/licenses && GOWORK=off go mod tidy
	cd hack/prose && GOWORK=off go mod tidy

.PHONY: lint
lint: $(BIN)/golangci-lint $(BIN)/vale ## Lint every module, and all texts against docs/contribute/style.md
	hack/lint.sh $(MODULES)

.PHONY: verify
verify: generate tidy lint ## Generate, tidy and lint; fail if that changes the tree
	@changes=$$(git status --porcelain); if [ -n "$$changes" ]; then \
		git --no-pager diff; echo "Error: the tree is not clean:"; echo "$$changes"; exit 1; fi

.PHONY: images
images: $(BIN)/localcluster $(BIN)/image ## Build the controllers' images into bin/ [PLATFORMS="linux/amd64 linux/arm64"]
	hack/images.sh "$(PLATFORMS)" $(CONTROLLERS)

.PHONY: kubectl-train
kubectl-train: $(BIN)/kubectl-train ## Build kubectl train for this machine, in bin

.PHONY: client
client: ## Build kubectl train for all platforms, and pack it for users, in bin/client
	hack/client.sh $(CLIENT) $(BIN)/client

.PHONY: charts
charts: $(BIN)/helm $(BIN)/kustomize ## Build a Helm chart of each controller in bin/charts
	hack/charts.sh $(CONTROLLERS)

.PHONY: release
release: $(BIN)/helm $(BIN)/kustomize ## Show the changes of a release of a module, or make the release [MODULE=pytorch VERSION=v0.2.0 DRY_RUN=true]
	cd hack/tools && GOTOOLCHAIN=$$(../build.sh --toolchain) GOWORK=off go run ./release -root $(CURDIR) -module "$(MODULE)" -version "$(VERSION)" -dry-run=$(DRY_RUN)

.PHONY: sign
sign: ## Sign the files, the provenance and the image of a release with a cosign key [MODULE=pytorch KEY=cosign.key]
	cd hack/tools && GOWORK=off go build -o $(BIN)/sign ./sign
	$(BIN)/sign -module "$(MODULE)" -key "$(KEY)"

##@ Minutes

.PHONY: test
# The module test reads files of other modules, which Go's test cache does not track. make lint runs test/style.
test: $(BIN)/localcluster ## Run the unit and integration tests of every module
	export KUBEBUILDER_ASSETS="$$($(BIN)/localcluster assets)"; \
		go test -count=1 -timeout 30m $$(go list ./test/... | grep -vE '/test/(release|style)$$') & uncached=$$!; status=0; \
		go test -p $(PACKAGES) -timeout 30m $(patsubst %,./%/...,$(filter-out test,$(MODULES))) || status=1; \
		wait $$uncached || status=1; exit $$status
	cd hack/tools && GOWORK=off go test $$(GOWORK=off go list ./... | grep -v $(RELEASE:%=-e '/tools/%$$'))

.PHONY: test-release
test-release: $(BIN)/localcluster $(BIN)/cosign $(BIN)/krew $(BIN)/validate-krew-manifest charts ## Test what only releases need: charts, archives, licenses, signatures
	KUBEBUILDER_ASSETS="$$($(BIN)/localcluster assets)" go test -count=1 ./test/release
	cd hack/tools && GOWORK=off go test $(RELEASE:%=./%)
	cd hack/licenses && GOWORK=off go test .

.PHONY: integration
integration: $(BIN)/localcluster ## Run the integration tests on the oldest Kubernetes [CONTROLLERS=pytorch KUBERNETES=kubernetes-1.34]
	export KUBEBUILDER_ASSETS="$$($(BIN)/localcluster --kubernetes $(KUBERNETES) assets)"; go test -p $(PACKAGES) -timeout 30m $(CONTROLLERS:%=./%/test) ./test/upgrade

.PHONY: fuzz
fuzz: ## Fuzz jobs, queues and data from outside [FUZZTIME=1m]
	FUZZTIME=$(FUZZTIME) hack/fuzz.sh

.PHONY: fuzz-turn
fuzz-turn: ## Fuzz one target, which the hash of the tree selects [FUZZTIME=1m]
	FUZZTIME=$(FUZZTIME) hack/fuzz.sh turn

.PHONY: tenants
tenants: KUBERNETES = kubernetes
tenants: ## Attack the controllers as a tenant of a shared cluster [ATTACKS="pytorch && caches" KUBERNETES=kubernetes-1.34]
	TENANTS=true go test -count=1 -timeout 60m -v ./test/tenants -kubernetes=$(KUBERNETES) -ginkgo.label-filter="$(ATTACKS)"

.PHONY: work
work: ## Count the operations of the controllers for each list that a tenant can fill
	WORK=true go test -count=1 -v ./test/work

.PHONY: mutation
mutation: ## Put small bugs into the packages that decide, and print those that no unit test detects [PACKAGE=common/policy RECORD=false]
	go run ./test/cmd/mutation --record=$(RECORD) $(PACKAGE)

.PHONY: outside
outside: $(BIN)/localcluster $(BIN)/pack ## Build and test each module from a module proxy, like other projects
	hack/outside.sh

.PHONY: e2e
e2e: images charts $(BIN)/ginkgo kubectl-train ## Run the end-to-end tests on the local cluster or $KUBECONFIG [FOCUS="always || pytorch" E2E_TRAINING=oldest] (all: half an hour)
	hack/e2e.sh "$(FOCUS)" $(CONTROLLERS)

.PHONY: ci
ci: ## Run the checks of a change: the stages of every run, those that test what it touches, and some in turn (25 minutes)
	go run ./test/cmd/stages once

.PHONY: pending
pending: ## Write the checks that have not passed since their files changed to test/stages/pending.yaml
	go run ./test/cmd/stages pending

##@ Up to hours

.PHONY: explore
explore: ## Explore all executions of small jobs, with every fault of the model
	go test ./kit/conformance $(FRAMEWORKS:%=./%) -run '(PlainKind|Conformance)/small' -explore.everything -v -timeout 0

.PHONY: mutants
mutants: ## Check that the exploration of small jobs finds known bugs in the job controller [PART=1/6]
	MUTANTS=$(PART) go test -count=1 -timeout 60m -v ./test/mutants

.PHONY: bench
bench: ## Measure the controllers and batch/v1 Job, for docs/contribute/performance.md [BENCH=--quick: a minute]
	go run ./test/cmd/bench $(BENCH)

.PHONY: test-all
test-all: ## Run all checks; run it again to repeat those that have not passed
	go run ./test/cmd/stages all

# go build checks whether the program is up to date.
.PHONY: FORCE
$(BIN)/localcluster: FORCE
	go build -o $@ ./test/cmd/localcluster
$(BIN)/ginkgo: FORCE
	cd test && go build -o $@ github.com/onsi/ginkgo/v2/ginkgo
$(BIN)/image $(BIN)/pack $(BIN)/reference $(BIN)/registry $(BIN)/surface $(BIN)/trimcrd: $(BIN)/%: FORCE
	cd hack/tools && GOWORK=off go build -o $@ ./$*
$(BIN)/controller-gen: PACKAGE := sigs.k8s.io/controller-tools/cmd/controller-gen
$(BIN)/crd-ref-docs: PACKAGE := github.com/elastic/crd-ref-docs
$(BIN)/golangci-lint: PACKAGE := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BIN)/helm: PACKAGE := helm.sh/helm/v4/cmd/helm
$(BIN)/kustomize: PACKAGE := sigs.k8s.io/kustomize/kustomize/v5
$(BIN)/controller-gen $(BIN)/crd-ref-docs $(BIN)/golangci-lint $(BIN)/helm $(BIN)/kustomize: FORCE
	cd hack/tools && GOWORK=off go build -o $@ $(PACKAGE)

# kubectl finds the program and the script for completion in the PATH. They are the same as in a release.
$(BIN)/kubectl-train: FORCE
	hack/build.sh $(CLIENT) $(BIN)/native
	cp $(BIN)/native/kubectl-train $(CLIENT)/kubectl_complete-train $(BIN)

$(BIN)/cosign: FORCE
	cd hack/cosign && GOWORK=off go build -o $@ github.com/sigstore/cosign/v3/cmd/cosign

$(BIN)/krew $(BIN)/validate-krew-manifest: $(BIN)/%: FORCE
	cd hack/krew && GOWORK=off go build -o $@ sigs.k8s.io/krew/cmd/$*

# Vale parses Go with a C library.
$(BIN)/vale: FORCE
	cd hack/prose && GOWORK=off CGO_ENABLED=1 go build -o $@ github.com/vale-cli/vale/v3/cmd/vale
