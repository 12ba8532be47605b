// The tensorboard-controller runs the TensorBoards of a cluster. Its command "sidecar" runs in the pod of each
// TensorBoard.
package main

import (
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/tensorboard"
)

func main() {
	manager.Main(tensorboard.Program(tensorboard.DefaultOptions()))
}
