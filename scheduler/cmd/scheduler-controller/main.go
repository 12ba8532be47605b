// The scheduler-controller implements Queues and PodGroups on the scheduler of a cluster.
package main

import (
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/scheduler"
)

func main() {
	manager.Main(scheduler.Program(scheduler.DefaultOptions()))
}
