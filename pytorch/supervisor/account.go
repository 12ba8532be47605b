package supervisor

import (
	"fmt"
	"slices"
	"time"

	"tensorstack.dev/jobs/common/progress"
	"tensorstack.dev/jobs/common/trainlog"
)

const (
	// joinTimeout is how long a replica without processes counts as one that is about to join. It is torchrun's default.
	joinTimeout = 10 * time.Minute
	// keptRounds is the number of rounds that an account keeps, so that late messages of replicas find theirs.
	keptRounds = 4
	// maxReplicas is the maximum number of replicas of a job.
	maxReplicas = 2000
)

// account is the leader's account of the restarts in place of an attempt. It decides whether torchrun can start the
// processes again after the failure of one.
//
// torchrun starts the processes of all replicas together, in a round. If a process fails, the round ends. It also ends
// if a replica is lost, leaves or joins. Then processes fail too, because they lose their peers or because torchrun
// stops them. So a failure is a restart in place, and uses up the limit, only if all replicas of the round are there
// and no other replica is about to join. All failures in a round are one restart.
type account struct {
	counter  *progress.RestartCounter
	replicas map[string]*seat // by the ID of the connection
	rounds   []*round         // the last one is the newest
}

// seat is a replica that is there.
type seat struct {
	name   string
	joined time.Time
	start  int    // number of the start of the replica's processes, from 1
	round  *round // nil until the processes have started
}

// round is a round of the rendezvous.
type round struct {
	id   string
	size int // number of replicas
	// members are the replicas that have started their processes in the round, by the ID of the connection.
	members map[string]bool
	// hasLost is true if one of the members has left or was lost.
	hasLost bool
	// first is the first failure. Nil means none.
	first *failure
	// verdict is nil until the round is judged.
	verdict *verdict
	// isOrdered is true if the first failure is known to be the first one in all replicas.
	isOrdered bool
	// isClose is true if another replica reported a failure before the verdict, so that the first report might be from the
	// later failure.
	isClose bool
}

// failure is the end of a process that is no success.
type failure struct {
	// Rank is the rank of the process.
	Rank int `json:"rank"`
	// Code is the exit code, or the negative number of the signal that ended the process. If only the order matters, it is
	// 0 for an end whose code is unknown. Otherwise, it is not 0.
	Code int `json:"code"`

	replica string
}

// verdict is the decision after a failure.
type verdict struct {
	// Restarts reports whether torchrun can start the processes again.
	Restarts bool `json:"restarts"`
	// Explanation is for the log.
	Explanation string `json:"explanation"`
	// IsFirst reports whether no process of another replica failed earlier. It is false if that is unknown.
	IsFirst bool `json:"isFirst,omitempty"`
}

func newAccount(limit int) *account {
	return &account{counter: progress.NewRestartCounter(limit), replicas: map[string]*seat{}}
}

// join adds a replica. It returns false if there are too many.
func (a *account) join(id, name string, now time.Time) bool {
	if len(a.replicas) >= maxReplicas && a.replicas[id] == nil {
		return false
	}
	a.replicas[id] = &seat{name: name, joined: now}
	return true
}

// leave removes a replica that is about to end, or that is lost. Its last start might be unknown, so it can be a member
// of later rounds, too, if these lack a member.
func (a *account) leave(id string) {
	s := a.replicas[id]
	if s == nil {
		return
	}
	delete(a.replicas, id)
	if s.round != nil {
		s.round.hasLost = true
	}
	for _, later := range a.rounds[slices.Index(a.rounds, s.round)+1:] {
		later.hasLost = later.hasLost || len(later.members) < later.size
	}
}

// begin records the start of the processes of a replica. It does nothing if the start is already known. With some
// settings of torch, all rounds of a rendezvous have the same ID.
func (a *account) begin(id string, start start) {
	s := a.replicas[id]
	if s == nil || s.start == start.Number {
		return
	}
	var r *round
	for _, known := range a.rounds {
		if known.id == start.Round && !known.members[id] {
			r = known
		}
	}
	if r == nil {
		r = &round{id: start.Round, size: start.Size, members: map[string]bool{}}
		a.rounds = append(a.rounds, r)
		a.rounds = a.rounds[max(0, len(a.rounds)-keptRounds):]
	}
	r.members[id] = true
	s.start, s.round = start.Number, r
}

// fail records that a process of a replica has failed. It returns the round of the replica, or nil if there is none.
func (a *account) fail(id string, f failure) *round {
	s := a.replicas[id]
	if s == nil {
		return nil
	}
	switch r := s.round; {
	case r == nil:
	case r.first == nil:
		f.replica = s.name
		r.first = &f
	case r.verdict == nil && s.name != r.first.replica:
		r.isClose = r.isClose || !r.first.isOwnFault() || f.isOwnFault()
	}
	return s.round
}

// judge decides about a round in which a process has failed. The parameter step is the last step of the training, -1 if
// there was none, and nil if the steps are unknown. Later calls for the same round do nothing.
func (a *account) judge(r *round, step *int64, now time.Time) {
	if r.verdict != nil {
		return
	}
	if reason := a.excuse(r, now); reason != "" {
		r.verdict = &verdict{Restarts: true, Explanation: reason}
		return
	}
	r.isOrdered = r.first != nil && r.first.Code != 0 && !r.isClose && len(r.members) == r.size
	restarts, explanation := a.counter.Count(r.first.restart(), step, now)
	r.verdict = &verdict{Restarts: restarts, Explanation: explanation}
}

// verdictFor returns the verdict on a judged round for a replica in which a process has failed.
func (a *account) verdictFor(id string, r *round) verdict {
	v := *r.verdict
	s := a.replicas[id]
	v.IsFirst = r.isOrdered && s != nil && s.name == r.first.replica
	return v
}

// excuse returns why failures in the round are no restart in place. It returns "" if they are one.
func (a *account) excuse(r *round, now time.Time) string {
	if r.hasLost {
		return "a replica has left or was lost, so this is no restart in place"
	}
	for _, s := range a.replicas {
		if s.round == nil && now.Sub(s.joined) < joinTimeout {
			return fmt.Sprintf("%s joins, so this is no restart in place", s.name)
		}
	}
	return ""
}

// missed returns the round before the last one of a replica, if a failure in it might have been missed: none was
// reported, and not all replicas of the round are known. Otherwise it returns nil.
func (a *account) missed(id string) *round {
	s := a.replicas[id]
	if s == nil {
		return nil
	}
	i := slices.Index(a.rounds, s.round)
	if i < 1 {
		return nil
	}
	if r := a.rounds[i-1]; r.first == nil && r.members[id] && len(r.members) < r.size {
		return r
	}
	return nil
}

// restart returns the restart in place after the failure for the controller. The failure can be nil.
func (f *failure) restart() progress.Restart {
	if f == nil {
		return progress.Restart{}
	}
	rank, code := int32(f.Rank), int32(f.Code) //nolint:gosec // the controller checks them
	return progress.Restart{Replica: f.replica, Rank: &rank, Code: &code}
}

// isOwnFault reports whether the exit code rules out that the process only lost its peers. An unknown code does not.
func (f *failure) isOwnFault() bool {
	code := int32(f.Code) //nolint:gosec // exit codes are small
	return trainlog.IsOwnFault(&code)
}
