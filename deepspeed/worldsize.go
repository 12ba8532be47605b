package deepspeed

import (
	"encoding/base64"
	"fmt"

	"tensorstack.dev/jobs/common/framework"
)

const (
	// maxArgument is the maximum size of an argument of a program in Linux, in bytes.
	maxArgument = 128<<10 - 1
	// otherWords is the estimated length, in bytes, of the other words in the launcher's command for a host. These words
	// belong neither to the list of workers nor to the program.
	otherWords = 8 << 10
)

// checkSize returns an error if the command line that the launcher of DeepSpeed passes to each host is too long. This
// line is one argument of ssh and of a shell. It has the names and the slots of all workers, in base64.
func checkSize(peers framework.Peers, slots int, program []string) error {
	list := 0 // bytes of a list of slots in JSON, such as [0, 1]
	for slot := range slots {
		list += len(fmt.Sprint(slot)) + len(", ")
	}
	names := 0
	for _, member := range peers.Members {
		names += len(`"": [], `) + len(peers.FQDN(member)) + list
	}
	size := base64.URLEncoding.EncodedLen(names) + otherWords
	for _, word := range program {
		size += len(word) + len(`'' `)
	}
	if size <= maxArgument {
		return nil
	}
	return fmt.Errorf("the launcher of DeepSpeed passes the names of all %d workers and the program in one argument, "+
		"which would have %d KiB, and Linux allows 128 KiB: use fewer workers, a shorter name of the job, or "+
		"config.customCommand", len(peers.Members), size>>10)
}
