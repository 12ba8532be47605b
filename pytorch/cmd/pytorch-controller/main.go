// The pytorch-controller is the job controller for PyTorchTrainingJobs. In the pods of replicas, the same program can
// be the supervisor of torchrun.
package main

import (
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/pytorch"
	"tensorstack.dev/jobs/pytorch/supervisor"
)

func main() {
	supervisor.Main()
	manager.Main(manager.JobProgram(pytorch.Controller(), controller.DefaultOptions()))
}
