package pytorch_test

import (
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/pytorch"
)

// This is the main function of the pytorch-controller. A company that builds its own image can change the defaults of
// flags.
func ExampleController() {
	options := controller.DefaultOptions()
	options.ClusterDomain = "cluster.example.com"
	manager.Main(manager.JobProgram(pytorch.Controller(), options))
}
