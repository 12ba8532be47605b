package supervisor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"tensorstack.dev/jobs/common/progress"
)

func TestTheAccountKeepsTheLastRestartsInPlace(t *testing.T) {
	t.Parallel()
	a, now := newAccount(10), time.Now()
	a.join("a", "worker-a", now)
	for i := range 5 {
		a.begin("a", start{Number: i + 1, Round: fmt.Sprint(i), Size: 1})
		if i == 4 {
			a.judge(a.rounds[len(a.rounds)-1], nil, now) // nobody has told which process failed
			continue
		}
		a.judge(a.fail("a", failure{Rank: i, Code: -9}), nil, now.Add(time.Duration(i-5)*time.Second))
	}
	killed := func(rank int32, since int64) progress.Restart {
		return progress.Restart{Replica: "worker-a", Rank: &rank, Code: ptr.To[int32](-9), Since: since}
	}
	want := progress.Restarts{Count: 5, Last: []progress.Restart{{}, killed(3, 2000), killed(2, 3000)}}
	if diff := cmp.Diff(want, a.counter.State(now).Restarts); diff != "" {
		t.Errorf("unexpected restarts (-want +got):\n%s", diff)
	}
}

// scene plays what happens to the replicas of an attempt, and records the verdicts. The replicas have names of one
// letter, which are also the IDs of their supervisors. Each failure of a process is judged immediately.
type scene struct {
	account *account
	now     time.Time
	step    *int64
	starts  map[string]int
	got     []string
}

func newScene(replicas string) *scene {
	s := &scene{account: newAccount(2), now: time.Now(), starts: map[string]int{}}
	s.join(replicas)
	return s
}

func (s *scene) join(replicas string) {
	for id := range strings.SplitSeq(replicas, "") {
		s.account.join(id, "worker-"+id, s.now)
		s.starts[id] = 0
	}
}

// begin starts the processes of replicas in a round of a size.
func (s *scene) begin(round, replicas string, size int) {
	for id := range strings.SplitSeq(replicas, "") {
		s.starts[id]++
		for range 2 { // a replica repeats what it has told, when it connects again
			s.account.begin(id, start{Number: s.starts[id], Round: round, Size: size})
		}
	}
}

// all starts the processes of all replicas in a round.
func (s *scene) all(round, replicas string) { s.begin(round, replicas, len(replicas)) }

func (s *scene) leave(replica string) { s.account.leave(replica) }

// fail lets a process of each replica fail.
func (s *scene) fail(replicas string) {
	for id := range strings.SplitSeq(replicas, "") {
		r := s.account.fail(id, failure{Code: 1})
		if r == nil {
			s.got = append(s.got, "no round")
			continue
		}
		s.judge(r)
	}
}

func (s *scene) judge(r *round) {
	s.account.judge(r, s.step, s.now)
	switch v := *r.verdict; {
	case !v.Restarts:
		s.got = append(s.got, "ends: "+v.Explanation)
	case strings.HasSuffix(v.Explanation, "(maxRestarts)"):
		s.got = append(s.got, "counted")
	default:
		s.got = append(s.got, v.Explanation)
	}
}

func TestTheAccountCountsFailuresOfTheProgram(t *testing.T) {
	t.Parallel()
	const (
		usedUp = "ends: all restarts in place are used up (maxRestarts: 2)"
		noStep = "ends: there was no new step since the last restart in place"
		joins  = "worker-d joins, so this is no restart in place"
		lost   = "a replica has left or was lost, so this is no restart in place"
	)
	for name, tc := range map[string]struct {
		replicas string
		play     func(*scene)
		want     []string
	}{
		"failures are counted until the limit": {"ab", func(s *scene) {
			for _, round := range []string{"1", "2", "3"} {
				s.all(round, "ab")
				s.fail("b")
			}
		}, []string{"counted", "counted", usedUp}},
		"all failures in a round are one": {"ab", func(s *scene) {
			s.all("1", "ab")
			s.fail("ba")
			s.all("2", "ab")
			s.fail("ab")
			s.all("3", "ab")
			s.fail("ab")
		}, []string{"counted", "counted", "counted", "counted", usedUp, usedUp}},
		"a late failure belongs to its own round": {"ab", func(s *scene) {
			s.all("1", "ab")
			s.fail("b")
			s.begin("2", "b", 2)
			s.fail("a")
		}, []string{"counted", "counted"}},
		"a lost replica is no failure": {"abc", func(s *scene) {
			s.all("1", "abc")
			s.leave("c")
			s.fail("ab")
		}, []string{lost, lost}},
		"a replica that has left is no failure, even if another one has replaced it": {"abc", func(s *scene) {
			s.all("1", "abc")
			s.leave("c")
			s.join("d")
			s.fail("ab")
			s.all("2", "abd")
			s.fail("d")
		}, []string{lost, lost, "counted"}},
		"a replica that is lost before its start is known is no failure": {"abc", func(s *scene) {
			s.all("1", "abc")
			s.fail("a")
			s.begin("2", "ab", 3)
			s.leave("c")
			s.fail("a")
		}, []string{"counted", lost}},
		"a replica that was not in the round is no excuse": {"abc", func(s *scene) {
			s.all("1", "abc")
			s.all("2", "ab")
			s.leave("c")
			s.fail("a")
		}, []string{"counted"}},
		"a replica that connects again is in the same round": {"ab", func(s *scene) {
			s.all("1", "ab")
			s.leave("b")
			s.join("c")
			s.begin("1", "c", 2)
			s.fail("ac")
			s.all("2", "ac")
			s.fail("c")
		}, []string{lost, lost, "counted"}},
		"a replica that joins is no failure": {"ab", func(s *scene) {
			s.all("1", "ab")
			s.join("d")
			s.fail("ab")
			s.all("2", "abd")
			s.fail("b")
		}, []string{joins, joins, "counted"}},
		"a replica that does not join in time is no excuse": {"ab", func(s *scene) {
			s.all("1", "ab")
			s.join("d")
			s.now = s.now.Add(joinTimeout)
			s.fail("b")
		}, []string{"counted"}},
		"a replica that has been in a round does not join": {"ab", func(s *scene) {
			s.all("1", "ab")
			s.fail("b")
			s.begin("2", "b", 2)
			s.fail("b")
		}, []string{"counted", "counted"}},
		"rounds can have the same ID": {"ab", func(s *scene) {
			for range 3 {
				s.all("1", "ab")
				s.fail("ab")
			}
		}, []string{"counted", "counted", "counted", "counted", usedUp, usedUp}},
		"a replica without a start has no round": {"ab", func(s *scene) {
			s.fail("a")
			s.leave("a")
			s.fail("a")
			s.begin("1", "a", 1)
			s.fail("a")
		}, []string{"no round", "no round", "no round"}},
		"without a new step, a second failure is not restarted in place": {"ab", func(s *scene) {
			s.step = ptr.To[int64](7)
			s.all("1", "ab")
			s.fail("b")
			s.all("2", "ab")
			s.fail("b")
		}, []string{"counted", noStep}},
		"with a new step, it is": {"ab", func(s *scene) {
			s.step = ptr.To[int64](-1)
			s.all("1", "ab")
			s.fail("b")
			s.all("2", "ab")
			s.step = ptr.To[int64](1)
			s.fail("b")
		}, []string{"counted", "counted"}},
		"with unknown steps, it is": {"ab", func(s *scene) {
			s.step = ptr.To[int64](7)
			s.all("1", "ab")
			s.fail("b")
			s.all("2", "ab")
			s.step = nil
			s.fail("b")
		}, []string{"counted", "counted"}},
		"a receiver of progress that has started again knows no steps": {"ab", func(s *scene) {
			s.step = ptr.To[int64](7)
			s.all("1", "ab")
			s.fail("b")
			s.all("2", "ab")
			s.step = ptr.To[int64](-1)
			s.fail("b")
		}, []string{"counted", "counted"}},
		"without a first step, a second failure is not restarted in place": {"ab", func(s *scene) {
			s.step = ptr.To[int64](-1)
			s.all("1", "ab")
			s.fail("b")
			s.all("2", "ab")
			s.fail("b")
		}, []string{"counted", noStep}},
		"a lost replica needs no new step": {"abc", func(s *scene) {
			s.step = ptr.To[int64](7)
			s.all("1", "abc")
			s.fail("b")
			s.all("2", "abc")
			s.leave("c")
			s.fail("b")
		}, []string{"counted", lost}},
		"twenty replicas that are lost and twenty that join use up nothing": {"abc", func(s *scene) {
			s.all("0", "abc")
			for i := range 20 {
				s.leave("c")
				s.fail("ab")
				s.all(fmt.Sprintf("without %d", i), "ab")
				s.join("c")
				s.fail("ab")
				s.all(fmt.Sprintf("with %d", i), "abc")
			}
			s.got = nil
			s.fail("a")
			s.all("1", "abc")
			s.fail("b")
			s.all("2", "abc")
			s.fail("c")
		}, []string{"counted", "counted", usedUp}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(tc.replicas)
			tc.play(s)
			if diff := cmp.Diff(tc.want, s.got); diff != "" {
				t.Errorf("unexpected verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

// The replica a is the leader. It notices each start of its own processes.
func TestAFailureThatNobodyReportsIsMissedIfReplicasAreUnknown(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		play func(*scene)
		want bool
	}{
		"the first round": {func(s *scene) { s.begin("1", "a", 2) }, false},
		"a replica has never reported": {func(s *scene) {
			s.begin("1", "a", 2)
			s.begin("2", "a", 2)
		}, true},
		"all replicas have reported": {func(s *scene) {
			s.all("1", "ab")
			s.begin("2", "a", 2)
		}, false},
		"there was a failure": {func(s *scene) {
			s.begin("1", "a", 2)
			s.fail("a")
			s.begin("2", "a", 2)
		}, false},
		"the leader was not in the round": {func(s *scene) {
			s.begin("1", "b", 2)
			s.begin("2", "a", 2)
		}, false},
		"the leader is gone": {func(s *scene) {
			s.begin("1", "a", 2)
			s.leave("a")
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene("ab")
			tc.play(s)
			if got := s.account.missed("a") != nil; got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}

func TestTheAccountIsBounded(t *testing.T) {
	t.Parallel()
	a := newAccount(0)
	for i := range maxReplicas {
		if id := fmt.Sprint(i); !a.join(id, id, time.Now()) {
			t.Fatalf("replica %s was refused", id)
		}
	}
	if a.join("another", "another", time.Now()) {
		t.Error("one replica more than a job can have was accepted")
	}
	if !a.join("0", "0", time.Now()) {
		t.Error("a replica that is known was refused")
	}
	for i := range 100 {
		a.begin("0", start{Number: i + 1, Round: fmt.Sprint(i), Size: 1})
	}
	if got := len(a.rounds); got != keptRounds {
		t.Errorf("got %d rounds, want %d", got, keptRounds)
	}
}
