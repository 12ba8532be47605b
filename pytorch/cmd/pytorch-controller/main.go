// The pytorch-controller runs the PyTorchTrainingJobs of a cluster.
package main

import (
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/pytorch"
)

func main() {
	manager.Main(pytorch.Controller().Program(controller.DefaultOptions()))
}
