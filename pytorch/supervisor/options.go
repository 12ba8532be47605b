package supervisor

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
)

// Options are the options of a supervisor.
type Options struct {
	// PassesSignals makes the supervisor pass signals to torchrun.
	PassesSignals bool
	// Budget limits how often torchrun starts the processes again, or only shows which of them failed first. Nil means
	// that the supervisor does neither.
	Budget *Budget
}

// Budget is the limit of restarts in place, which the replicas of an attempt have in common.
type Budget struct {
	// Restarts is the number of restarts in place, at least 0.
	Restarts int
	// ID is the ID of the rendezvous. The replicas use it as the key by which they recognize each other.
	ID string
	// Replica is the name of the replica's pod.
	Replica string
	// Leader is the address of the leader's supervisor: a host name and a port.
	Leader string
	// IsLeader is true for the replica that has the budget.
	IsLeader bool
	// OnlyOrder is true if torchrun itself does not start processes again. Then the supervisor never ends torchrun. It
	// only asks the leader whether the process that failed was the first.
	OnlyOrder bool
}

// Names of flags.
const (
	flagPassSignals = "pass-signals"
	flagRestarts    = "restarts"
	flagID          = "id"
	flagReplica     = "replica"
	flagLeader      = "leader"
	flagIsLeader    = "is-leader"
	flagOnlyOrder   = "only-order"
)

// Command returns the command of the supervisor. The command that the supervisor runs follows.
func (o Options) Command() []string {
	command := []string{program}
	if o.PassesSignals {
		command = append(command, "--"+flagPassSignals)
	}
	if b := o.Budget; b != nil {
		command = append(command,
			"--"+flagRestarts+"="+strconv.Itoa(b.Restarts), "--"+flagID+"="+b.ID, "--"+flagReplica+"="+b.Replica,
			"--"+flagLeader+"="+b.Leader)
		if b.IsLeader {
			command = append(command, "--"+flagIsLeader)
		}
		if b.OnlyOrder {
			command = append(command, "--"+flagOnlyOrder)
		}
	}
	return command
}

// parse returns the options in the arguments, and the command that follows them.
func parse(args []string) (Options, []string, error) {
	var o Options
	var b Budget
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.PassesSignals, flagPassSignals, false, "")
	flags.IntVar(&b.Restarts, flagRestarts, -1, "")
	flags.StringVar(&b.ID, flagID, "", "")
	flags.StringVar(&b.Replica, flagReplica, "", "")
	flags.StringVar(&b.Leader, flagLeader, "", "")
	flags.BoolVar(&b.IsLeader, flagIsLeader, false, "")
	flags.BoolVar(&b.OnlyOrder, flagOnlyOrder, false, "")
	if err := flags.Parse(args); err != nil {
		return Options{}, nil, err
	}
	if b.Restarts >= 0 {
		_, _, err := net.SplitHostPort(b.Leader)
		if err != nil {
			return Options{}, nil, fmt.Errorf("--%s: %w", flagLeader, err)
		}
		if slices.Contains([]string{b.ID, b.Replica}, "") {
			return Options{}, nil, fmt.Errorf("--%s needs --%s and --%s", flagRestarts, flagID, flagReplica)
		}
		o.Budget = &b
	}
	if flags.NArg() == 0 {
		return Options{}, nil, errors.New("the command to run is missing")
	}
	return o, flags.Args(), nil
}
