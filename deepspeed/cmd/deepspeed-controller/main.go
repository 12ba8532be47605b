// The deepspeed-controller is the job controller for DeepSpeedJobs. The same program is the agent in the workers of
// these jobs.
package main

import (
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/deepspeed"
	"tensorstack.dev/jobs/deepspeed/agent"
)

func main() {
	agent.Main()
	manager.Main(manager.JobProgram(deepspeed.Controller(), controller.DefaultOptions()))
}
