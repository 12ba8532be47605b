package test

import . "github.com/onsi/ginkgo/v2"

var _ = Describe("A job in a namespace with rules", Ordered, ContinueOnFailure, func() {
	cluster.NamespaceSpecs("{}")
})
