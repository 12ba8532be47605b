package test

import . "github.com/onsi/ginkgo/v2"

var _ = Describe("A job with spec.scheduler.t9kScheduler", Ordered, func() { cluster.SchedulerSpecs() })
