// The tensorboard-controller runs the TensorBoards of a cluster. Its sidecar command is what it puts beside each of
// them.
package main

import (
	"tensorstack.dev/jobs/common/manager"
	"tensorstack.dev/jobs/tensorboard"
)

func main() {
	manager.Main(tensorboard.Program(tensorboard.DefaultOptions()))
}
