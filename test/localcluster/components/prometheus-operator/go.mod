// The CRDs of the Prometheus operator, for tests of what controllers give to it.
module tensorstack.dev/jobs/test/localcluster/components/prometheus-operator

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0
