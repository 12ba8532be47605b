// The zebra-controller runs the ZebraTrainingJobs of a cluster.
package main

import (
	"tensorstack.dev/jobs/common/controller"
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/zebra"
)

func main() {
	manager.Main(zebra.Controller().Program(controller.DefaultOptions()))
}
