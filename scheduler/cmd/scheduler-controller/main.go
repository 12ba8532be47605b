// The scheduler-controller makes the Queues and PodGroups of a cluster real.
package main

import (
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/scheduler"
)

func main() {
	manager.Main(scheduler.Program(scheduler.DefaultOptions()))
}
