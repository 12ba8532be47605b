// The zebra-controller is the job controller for ZebraTrainingJobs.
package main

import (
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/zebra"
)

func main() {
	manager.Main(manager.JobProgram(zebra.Controller(), controller.DefaultOptions()))
}
