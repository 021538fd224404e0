# Each target is one line that calls scripts/ or headrace. Options: make run ARGS="--once --all".
.PHONY: run test check bench down

run:
	@scripts/run $(ARGS)

test:
	@scripts/test $(ARGS)

check:
	@scripts/check

bench:
	@scripts/bench kinesis $(ARGS)

down:
	@.venv/bin/headrace down
