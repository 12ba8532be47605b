package why

import "fmt"

// signals are the signals that often end a training, with their meaning.
var signals = []struct {
	number        int32
	name, meaning string
}{
	{2, "SIGINT", "somebody interrupted it"},
	{4, "SIGILL", "the program uses instructions that the CPU of the node does not have"},
	{6, "SIGABRT", "the program aborted itself, often because of a failed check in C++ or CUDA code"},
	{7, "SIGBUS", "often the shared memory /dev/shm was too small for the workers of a data loader"},
	{8, "SIGFPE", "the program divided by zero in native code"},
	{9, "SIGKILL", "it was killed from outside, for example at the end of a grace period or because the node had no " +
		"memory left"},
	{11, "SIGSEGV", "a segmentation fault, which is an error in native code"},
	{15, "SIGTERM", "something outside asked it to end"},
}

// meaningOfSignal returns the meaning of a signal, as the end of a sentence. The result is empty for an unknown
// signal.
func meaningOfSignal(name string) string {
	for _, s := range signals {
		if s.name == name {
			return ": " + s.meaning
		}
	}
	return ""
}

// meaningOfCode returns the meaning of an exit code, as the end of a sentence. The result is empty for an unknown
// code.
func meaningOfCode(code int32) string {
	switch code {
	case 1:
		return ", an error of the program"
	case 2:
		return ", which programs use for a wrong command line, such as an unknown option or a script that does not exist"
	case 126:
		return ": the command of the container is not a program that can run"
	case 127:
		return ": the command of the container is not in the image"
	}
	for _, s := range signals {
		if code == 128+s.number {
			return fmt.Sprintf(" (%s): %s", s.name, s.meaning)
		}
	}
	return ""
}
