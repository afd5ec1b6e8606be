# Everything that this project does from a clone. `make` lists it.
.DEFAULT_GOAL := help
.NOTPARALLEL:
SHELL := /bin/bash -euo pipefail

VENV ?= .venv
CONFIG ?= configs/cpu-smollm2.yaml
RECIPE ?= configs/recipes/smollm2-135m.yaml
BENCH_FLAGS := $(if $(QUICK),--quick)
HEAD_TESTS := $(patsubst %,tests/e2e/exactness/test_%.py,adaptation head_ahead medusa)
export VENV

.PHONY: help
help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  make %-18s %s\n", $$1, $$2}'

.PHONY: serve
serve: install-engine ## set up, then serve CONFIG (configs/cpu-smollm2.yaml) with a worker on this machine
	@exec $(VENV)/bin/specgate serve --config $(CONFIG)

.PHONY: test
test: install-tests ## run the tests, a real worker and the SDKs included: half an hour, 8 GiB
	$(VENV)/bin/python -m engine.models --config configs/cpu-smollm2.yaml
	$(VENV)/bin/pytest -n 2 tests/unit tests/integration
	$(VENV)/bin/pytest tests/e2e
	SPECGATE_TEST_RUNNER=v2 $(VENV)/bin/pytest tests/e2e/exactness/test_greedy.py

.PHONY: test-v2
test-v2: install-tests ## run the exactness tests on vLLM's V2 model runner, interpreted: an hour
	$(VENV)/bin/python -m engine.models --config configs/cpu-smollm2.yaml
	SPECGATE_TEST_RUNNER=v2 $(VENV)/bin/pytest tests/e2e/exactness
	SPECGATE_TEST_RUNNER=v2 $(VENV)/bin/pytest -m slow $(HEAD_TESTS)
	SPECGATE_TEST_RUNNER=v2-ahead $(VENV)/bin/pytest -m "" tests/e2e/exactness/test_head_swap.py $(HEAD_TESTS)

.PHONY: test-all
test-all: export SANITIZE_SECONDS ?= 60
test-all: install-tests ## run everything: also training, sanitizers, every injected failure and five minutes of chaos
	$(VENV)/bin/python -m engine.models --config configs/cpu-smollm2.yaml
	$(VENV)/bin/pytest -n 2 -m "" tests/unit tests/integration
	$(VENV)/bin/pytest -m "" tests/sanitize tests/e2e
	$(VENV)/bin/python -m loadtest.chaos --faults 20

.PHONY: check
check: install-tests ## format, lint, types, architecture and unit tests of the product: 90 seconds
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy & types=$$!; failed=0; \
		$(VENV)/bin/pytest -n 2 tests/unit --ignore tests/unit/bench --ignore tests/unit/loadtest || failed=1; wait $$types || failed=1; exit $$failed

.PHONY: bench-gateway
bench-gateway: install-dev ## measure the gateway against other routers (QUICK=1 for three minutes)
	@$(VENV)/bin/python -m bench.gateway $(BENCH_FLAGS)

.PHONY: bench-suffix
bench-suffix: install-dev ## measure the suffix index against arctic-inference (TRACES=dir, QUICK=1 for three minutes)
	@$(VENV)/bin/python -m bench.suffix $(BENCH_FLAGS) $(addprefix --data ,$(or $(TRACES),$(DATA)))

.PHONY: bench-engine
bench-engine: install-dev ## measure speculation on a real model (BATCH=1,4,16 MODEL= DATA=dir, QUICK=1 for three minutes)
	@$(VENV)/bin/python -m bench.engine $(BENCH_FLAGS) $(addprefix --batch ,$(BATCH)) \
		$(addprefix --model ,$(MODEL)) $(addprefix --data ,$(DATA)) $(addprefix --methods ,$(METHODS))

.PHONY: bench-head
bench-head: install-dev ## measure a draft head on a real model (HEAD=folder MODEL= DATA=dir, QUICK=1 for three minutes)
	@$(VENV)/bin/python -m bench.head $(BENCH_FLAGS) \
		$(addprefix --head ,$(HEAD)) $(addprefix --model ,$(MODEL)) $(addprefix --data ,$(DATA))

.PHONY: bench-step
bench-step: install-dev ## measure the parts of a step on this CPU, beside reading its weights (THREADS=2, QUICK=1 for two minutes)
	@$(VENV)/bin/python -m bench.step $(BENCH_FLAGS) $(addprefix --threads ,$(THREADS))

.PHONY: bench-swap
bench-swap: install-dev ## measure steps while draft heads are loaded and tried (QUICK=1 for two minutes)
	@$(VENV)/bin/python -m bench.swap $(BENCH_FLAGS)

.PHONY: bench-trace
bench-trace: install-dev ## measure what the origin of each token costs in an answer (QUICK=1 for two minutes)
	@$(VENV)/bin/python -m bench.trace $(BENCH_FLAGS)

.PHONY: bench-canary
bench-canary: install-dev ## measure the canary: what it costs, false alarms, how soon it finds a defect (ONLY=latency,alarms,defects REQUESTS=10000, QUICK=1 for three minutes)
	@$(VENV)/bin/python -m bench.canary $(BENCH_FLAGS) $(addprefix --only ,$(ONLY)) $(addprefix --requests ,$(REQUESTS))

.PHONY: bench-drift
bench-drift: install-dev ## acceptance of a static and of an adapted head while the workload changes (FOLDER=dir to go on later, QUICK=1 for three minutes)
	@$(VENV)/bin/python -m bench.drift $(BENCH_FLAGS) $(addprefix --folder ,$(FOLDER))

.PHONY: bench-exact
bench-exact: install-dev ## compare answers with and without drafts in every setting, 1,008 prompts (DATA=dir FOLDER=dir to go on later, QUICK=1 for three minutes)
	@$(VENV)/bin/python -m engine.models --config configs/cpu-smollm2.yaml >&2
	@$(VENV)/bin/python -m bench.exact $(BENCH_FLAGS) $(addprefix --data ,$(DATA)) $(addprefix --folder ,$(FOLDER))

.PHONY: bench-rival
bench-rival: install-dev ## measure specgate against llama-server (MODEL= DATA=dir, QUICK=1 for three minutes; builds it once: 8 minutes)
	@$(VENV)/bin/python -m bench.rival $(BENCH_FLAGS) $(addprefix --model ,$(MODEL)) $(addprefix --data ,$(DATA))

.PHONY: gpu-check
gpu-check: ## measure and check all that needs a GPU, in ten minutes; goes on where it stopped (MODEL=folder EAGLE=folder PARTS=)
	@$(VENV)/bin/python -m bench.gpu $(addprefix --model ,$(MODEL)) $(addprefix --eagle ,$(EAGLE)) \
		$(addprefix --parts ,$(PARTS))

.PHONY: bench-gate-sim
bench-gate-sim: install-dev ## simulate the gate against fixed drafts, other engines and an oracle (DATA=dir, QUICK=1 for a minute)
	@$(VENV)/bin/python -m bench.gate_sim $(BENCH_FLAGS) $(addprefix --data ,$(DATA))

.PHONY: bench-launch
bench-launch: install-dev ## simulate the choice between waiting for tokens and launching steps ahead (QUICK=1 for half a minute)
	@$(VENV)/bin/python -m bench.gate_sim --launches $(BENCH_FLAGS)

.PHONY: bench-routing
bench-routing: install-dev ## the choice of a worker against other rules: three real workers, and simulated fleets of 4 to 256 (QUICK=1 for a first look, DATA=dir: recorded conversations)
	@$(VENV)/bin/python -m engine.models --config configs/cpu-smollm2.yaml >&2
	@$(VENV)/bin/python -m bench.routing $(BENCH_FLAGS) $(addprefix --data ,$(DATA))

.PHONY: bench-graphs
bench-graphs: install-dev ## which CUDA graphs vLLM would choose for our steps, by its own dispatcher
	@$(VENV)/bin/python -m bench.gpu.graphs $(BENCH_FLAGS)

.PHONY: bench-delay
bench-delay: install-dev ## what the suffix index loses where it drafts a step early (DATA=dir)
	@$(VENV)/bin/python -m bench.suffix.delay $(BENCH_FLAGS) $(addprefix --data ,$(DATA))

.PHONY: bench-gate
bench-gate: install-dev ## measure the gate on a real model (BATCH=1,4,16 DATA=dir PLOT=file, QUICK=1 for three minutes)
	@$(VENV)/bin/python -m bench.gate $(BENCH_FLAGS) $(addprefix --batch ,$(BATCH)) \
		$(addprefix --data ,$(DATA)) $(addprefix --plot ,$(PLOT))

.PHONY: bench-pacing
bench-pacing: install-dev ## measure pacing (DATA=dir URL= PATTERNS=file PLOT=file, QUICK=1 for three minutes)
	@$(VENV)/bin/python -m bench.pacing $(BENCH_FLAGS) $(addprefix --data ,$(DATA)) \
		$(addprefix --url ,$(URL)) $(addprefix --patterns ,$(PATTERNS)) $(addprefix --plot ,$(PLOT))

.PHONY: load
load: install-dev ## load-test a server (URL=, SCENARIO=mixed DATA=dir PAGE=file.html RATE= SECONDS= SEED= KEY_FILE=)
	@$(VENV)/bin/python -m loadtest.load --url $(or $(URL),$(error URL is not set)) \
		$(addprefix --scenario ,$(SCENARIO)) $(addprefix --data ,$(DATA)) $(addprefix --page ,$(PAGE)) \
		$(addprefix --rate ,$(RATE)) $(addprefix --seconds ,$(SECONDS)) $(addprefix --seed ,$(SEED)) \
		$(addprefix --key-file ,$(KEY_FILE))

.PHONY: fuzz
fuzz: install-dev ## hostile clients, workers and floods, 100,000 cases: 10 minutes (SEED= ONLY=case, QUICK=1 for three)
	@$(VENV)/bin/python -m bench.fuzz $(BENCH_FLAGS) $(addprefix --seed ,$(SEED)) $(addprefix --only ,$(ONLY))

.PHONY: chaos
chaos: install-dev ## random faults under load on a real worker (FAULTS=200 SEED= KEEP=dir, QUICK=1 for three minutes)
	@$(VENV)/bin/python -m engine.models --config configs/cpu-smollm2.yaml >&2
	@$(VENV)/bin/python -m loadtest.chaos $(BENCH_FLAGS) $(addprefix --faults ,$(FAULTS)) \
		$(addprefix --seed ,$(SEED)) $(addprefix --keep ,$(KEEP))

.PHONY: soak
soak: install-dev ## steady load on a real worker for MINUTES (60); does its memory grow?
	@$(VENV)/bin/python -m engine.models --config configs/cpu-smollm2.yaml >&2
	@$(VENV)/bin/python -m loadtest.soak $(addprefix --minutes ,$(MINUTES)) \
		$(addprefix --rate ,$(RATE)) $(addprefix --scenario ,$(SCENARIO)) $(addprefix --seed ,$(SEED))

.PHONY: train-head
train-head: install-train ## train the draft head of RECIPE (smollm2-135m: hours on two cores); goes on after a stop
	@exec $(VENV)/bin/specgate train $(RECIPE)

.PHONY: chart
chart: install-tests ## lint and render the Helm chart for every ci file, validate every manifest, run its tests
	$(VENV)/bin/python -m helm.generate --check
	$(VENV)/bin/pytest tests/unit/helm

.PHONY: dashboards
dashboards: install-dev ## write the chart's dashboards and rules again from monitoring/
	$(VENV)/bin/python -m monitoring

.PHONY: dashboards-pictures
dashboards-pictures: install-dev ## draw docs/dashboard-*.png from a live run with a real worker and Prometheus (LIVE_SECONDS=180)
	$(VENV)/bin/python -m tests.e2e.monitoring $(addprefix --seconds ,$(LIVE_SECONDS))

.PHONY: page-pictures
page-pictures: install-tests ## draw docs/page-*.png: the page in Chromium, with a real worker
	PAGE_PICTURES=1 SPECGATE_ENGINE__SPECULATION__SUFFIX__WARM_START=false $(VENV)/bin/pytest tests/e2e/page/test_playground.py tests/e2e/page/test_predict.py tests/e2e/page/test_live.py

.PHONY: docs
docs: install-dev ## write docs/metrics.md, docs/settings.md, docs/vllm.md and the chart's values again
	$(VENV)/bin/python -m scripts.write_docs
	$(VENV)/bin/python -m helm.generate

.PHONY: install-gateway
install-gateway: ## install the gateway alone
	@scripts/install.sh gateway

.PHONY: install-engine
install-engine: ## install gateway and engine for CPUs
	@scripts/install.sh engine

.PHONY: install-gpu
install-gpu: ## install gateway and engine for CUDA
	@scripts/install.sh gpu

.PHONY: install-train
install-train: ## install gateway, engine and what training needs, for CPUs
	@scripts/install.sh train

.PHONY: install-dev
install-dev: ## install everything that the tests need, for CPUs
	@scripts/install.sh dev

.PHONY: install-node
install-node: ## install the Node SDKs that the end-to-end tests use
	@scripts/install.sh node

.PHONY: install-helm
install-helm: ## install helm, for the tests of the chart
	@scripts/install.sh helm

.PHONY: install-tests
install-tests: ## install everything that the tests need, Node, helm, Prometheus, Redis, PostgreSQL and Chromium included
	@scripts/apt.sh test
	@scripts/install.sh dev
	@scripts/install.sh node
	@scripts/install.sh helm
	@scripts/install.sh prometheus
	@scripts/install.sh redis
	@scripts/install.sh postgres
	@scripts/install.sh chromium
	@scripts/install.sh triton

.PHONY: install-libraries
install-libraries: ## install the libraries of the system that vLLM loads (root)
	@scripts/apt.sh runtime

.PHONY: install-cuda-libraries
install-cuda-libraries: ## install these and the C compiler that Triton calls on GPUs (root)
	@scripts/apt.sh cuda

.PHONY: lock
lock: ## resolve the dependencies again and write requirements/*.lock
	@scripts/lock.sh

.PHONY: check-docker
check-docker: install-dev ## lint the Dockerfile with hadolint
	$(VENV)/bin/hadolint Dockerfile

.PHONY: clean
clean: ## remove what was built or installed here; downloaded models stay
	rm -rf $(VENV) .bench .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage dist engine/build engine/_core.*.so
	rm -rf tests/e2e/node/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
