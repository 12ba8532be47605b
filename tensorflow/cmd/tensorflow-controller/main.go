// The tensorflow-controller is the job controller for TensorFlowTrainingJobs.
package main

import (
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/tensorflow"
)

func main() {
	manager.Main(manager.JobProgram(tensorflow.Controller(), controller.DefaultOptions()))
}
