package trainlog

import "fmt"

// signals are the names of the signals of Linux, beginning with signal 1.
var signals = []string{
	"SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL", "SIGUSR1",
	"SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP",
	"SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO",
	"SIGPWR", "SIGSYS",
}

// Signal returns the name of the signal for a negative exit code. It returns "" for other exit codes: the process
// exited by itself.
func Signal(exitCode int32) string {
	n := int(-exitCode)
	switch {
	case n <= 0:
		return ""
	case n <= len(signals):
		return signals[n-1]
	default:
		return fmt.Sprintf("signal %d", n)
	}
}
