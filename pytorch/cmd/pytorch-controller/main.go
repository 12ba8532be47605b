// The pytorch-controller is the job controller for PyTorchTrainingJobs.
package main

import (
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/pytorch"
)

func main() {
	manager.Main(pytorch.Controller().Program(controller.DefaultOptions()))
}
