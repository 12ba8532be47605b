package test

import . "github.com/onsi/ginkgo/v2"

var _ = Describe("A job with spec.tensorboardSpec", Ordered, func() { cluster.TensorBoardSpecs() })
