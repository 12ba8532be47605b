package progress

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/types"
)

const interval = 15 * time.Second

var job = types.NamespacedName{Namespace: "team", Name: "job"}

// pods returns pods whose addresses are their UIDs.
func pods(uids ...types.UID) []Pod {
	var list []Pod
	for _, uid := range uids {
		list = append(list, Pod{UID: uid, Target: Target{Address: string(uid), Token: token}})
	}
	return list
}

// cluster contains the receivers of a test. The keys of its maps are the addresses of the receivers.
type cluster struct {
	mu      sync.Mutex
	reads   map[string]int
	errs    map[string]error
	hanging map[string]bool
	// reports is the number of reports that each receiver has received, and restarts that of restarts in place that each
	// supervisor has counted.
	reports  int64
	restarts int32
	changes  []types.NamespacedName
}

func (c *cluster) read(ctx context.Context, target Target) (State, error) {
	c.mu.Lock()
	c.reads[target.Address]++
	hangs, err := c.hanging[target.Address], c.errs[target.Address]
	state := State{Reports: c.reports, Restarts: Restarts{Count: c.restarts}}
	c.mu.Unlock()
	if hangs {
		ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
		defer cancel()
		<-ctx.Done()
		return State{}, ctx.Err()
	}
	return state, err
}

func (c *cluster) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// changed returns how often the poller has called Changed since the last call of changed.
func (c *cluster) changed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.changes)
	c.changes = nil
	return n
}

func (c *cluster) readsOf(address string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reads[address]
}

// run runs a test with a poller in a synctest bubble.
func run(t *testing.T, test func(t *testing.T, c *cluster, p *Poller)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{reads: map[string]int{}, errs: map[string]error{}, hanging: map[string]bool{}}
		p := NewPoller(c.read, interval)
		p.Changed = func(job types.NamespacedName) {
			c.change(func() { c.changes = append(c.changes, job) })
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Start(ctx) }()
		test(t, c, p)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestAPodIsReadImmediatelyAndThenOncePerInterval(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		if got := p.Follow(job, pods("a")); len(got) > 0 {
			t.Errorf("the readings before the first read are %v, want none", got)
		}
		synctest.Wait()
		began := time.Now()
		want := []Reading{{UID: "a", Time: began}}
		if diff := cmp.Diff(want, p.Follow(job, pods("a"))); diff != "" {
			t.Errorf("unexpected readings (-want +got):\n%s", diff)
		}
		time.Sleep(100 * interval)
		synctest.Wait()
		if n := c.readsOf("a"); n < 101 || n > 102 {
			t.Errorf("the pod was read %d times in 100 intervals, want 101 or 102", n)
		}
	})
}

func TestTheReadsOfPodsAreSpread(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		var uids []types.UID
		for i := range 1000 {
			uids = append(uids, types.UID(fmt.Sprint(i)))
		}
		p.Follow(job, pods(uids...))
		synctest.Wait()
		time.Sleep(interval / 2)
		synctest.Wait()
		again := 0
		for _, uid := range uids {
			again += c.readsOf(string(uid)) - 1
		}
		if again < 300 || again > 700 {
			t.Errorf("%d of 1000 pods were read again after half an interval, want about half", again)
		}
	})
}

func TestAPodThatIsNoLongerFollowedIsNotRead(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		p.Follow(job, pods("a", "b"))
		synctest.Wait()
		if got := p.Follow(job, pods("b")); len(got) != 1 || got[0].UID != "b" {
			t.Errorf("the readings are %v, want one of pod b", got)
		}
		time.Sleep(10 * interval)
		synctest.Wait()
		if n := c.readsOf("a"); n != 1 {
			t.Errorf("the pod that is no longer followed was read %d times, want 1", n)
		}
		p.Forget(job)
		n := c.readsOf("b")
		time.Sleep(10 * interval)
		synctest.Wait()
		if again := c.readsOf("b"); again != n {
			t.Errorf("a pod of the job was read %d times after Forget, want 0", again-n)
		}
		if len(p.jobs) != 0 {
			t.Errorf("the poller keeps %d jobs, want none", len(p.jobs))
		}
		if got := p.Follow(job, pods("a")); len(got) != 0 {
			t.Errorf("the readings are %v, want none", got)
		}
		synctest.Wait()
		if n := c.readsOf("a"); n != 2 {
			t.Errorf("the pod that is followed again was read %d times, want 2", n)
		}
	})
}

func TestAReadThatEndsAfterForgetIsIgnored(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		c.hanging["a"] = true
		p.Follow(job, pods("a"))
		synctest.Wait()
		p.Forget(job)
		time.Sleep(10 * interval)
		synctest.Wait()
		if n := c.readsOf("a"); n != 1 || len(p.jobs) != 0 {
			t.Errorf("the pod was read %d times, want 1, and the poller keeps %d jobs, want none", n, len(p.jobs))
		}
	})
}

func TestAFailedReadKeepsTheLastState(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		refused := errors.New("connection refused")
		c.reports = 3
		p.Follow(job, pods("a"))
		synctest.Wait()
		began := time.Now()
		c.change(func() { c.errs["a"] = refused })
		time.Sleep(2 * interval)
		synctest.Wait()
		want := []Reading{{UID: "a", Time: began, State: State{Reports: 3}, Err: refused}}
		if diff := cmp.Diff(want, p.Follow(job, pods("a")), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("unexpected readings (-want +got):\n%s", diff)
		}
	})
}

func TestChangedIsCalledForImportantReads(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		c.errs["a"] = errors.New("connection refused")
		p.Follow(job, pods("a"))
		for _, step := range []struct {
			name     string
			err      error
			reports  int64
			restarts int32
			want     int
		}{
			{"the pod cannot be read yet", c.errs["a"], 0, 0, 0},
			{"the first read succeeds", nil, 0, 0, 1},
			{"nothing has changed", nil, 0, 0, 0},
			{"the first report is read", nil, 1, 0, 1},
			{"another report is read", nil, 2, 0, 0},
			{"a read fails after one that succeeded", errors.New("timeout"), 2, 0, 1},
			{"the next read fails, too", errors.New("timeout"), 2, 0, 0},
			{"a read succeeds again", nil, 2, 0, 1},
			{"a restart in place is read", nil, 2, 1, 1},
			{"two more restarts in place are read", nil, 2, 3, 1},
			{"no more restarts in place are read", nil, 2, 3, 0},
		} {
			c.change(func() { c.errs["a"], c.reports, c.restarts = step.err, step.reports, step.restarts })
			time.Sleep(2 * interval)
			synctest.Wait()
			if got := c.changed(); got != step.want {
				t.Errorf("%s: Changed was called %d times, want %d", step.name, got, step.want)
			}
		}
	})
}

func TestAPollerWithoutChangedWorks(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		p.Changed = nil
		p.Follow(job, pods("a"))
		synctest.Wait()
		if n := c.readsOf("a"); n != 1 {
			t.Errorf("the pod was read %d times, want 1", n)
		}
	})
}

func TestTheReceiverAndTheSupervisorOfAPodAreRead(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		both := []Pod{
			{UID: "a", Target: Target{Address: "receiver"}},
			{UID: "a", OfSupervisor: true, Target: Target{Address: "supervisor"}},
		}
		c.errs["supervisor"] = errors.New("connection refused")
		p.Follow(job, both)
		synctest.Wait()
		now := time.Now()
		want := []Reading{{UID: "a", Time: now}, {UID: "a", OfSupervisor: true, Err: c.errs["supervisor"]}}
		if diff := cmp.Diff(want, p.Follow(job, both), cmpopts.EquateErrors()); diff != "" {
			t.Errorf("unexpected readings (-want +got):\n%s", diff)
		}
	})
}

func TestAPodThatHasEndedKeepsItsLastReading(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		ended := pods("a", "b")
		ended[0].HasEnded, ended[1].HasEnded = true, true
		c.restarts = 2
		p.Follow(job, pods("a"))
		synctest.Wait()
		want := []Reading{{UID: "a", Time: time.Now(), State: State{Restarts: Restarts{Count: 2}}}}
		p.Follow(job, ended)
		c.change(func() { c.restarts = 0 })
		time.Sleep(2 * interval)
		synctest.Wait()
		if diff := cmp.Diff(want, p.Follow(job, ended)); diff != "" {
			t.Errorf("unexpected readings (-want +got):\n%s", diff)
		}
		if a, b := c.readsOf("a"), c.readsOf("b"); a != 1 || b != 0 {
			t.Errorf("the pods were read %d and %d times, want once before the end, and never", a, b)
		}
	})
}

func TestTheNewestTargetIsRead(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		p.Follow(job, []Pod{{UID: "a", Target: Target{Address: "old"}}})
		synctest.Wait()
		p.Follow(job, []Pod{{UID: "a", Target: Target{Address: "new"}}})
		time.Sleep(2 * interval)
		synctest.Wait()
		if old, now := c.readsOf("old"), c.readsOf("new"); old != 1 || now == 0 {
			t.Errorf("the old target was read %d times, want 1, and the new one %d times, want more than 0", old, now)
		}
	})
}

func TestTheNumberOfPodsOfAJobIsLimited(t *testing.T) {
	run(t, func(t *testing.T, _ *cluster, p *Poller) {
		var uids []types.UID
		for i := range MaxPods + 10 {
			uids = append(uids, types.UID(fmt.Sprint(i)))
		}
		p.Follow(job, pods(uids...))
		time.Sleep(interval)
		synctest.Wait()
		if n := len(p.Follow(job, pods(uids...))); n != MaxPods {
			t.Errorf("there are %d readings, want %d", n, MaxPods)
		}
	})
}

func TestPodsThatHangDoNotDelayOtherNamespaces(t *testing.T) {
	run(t, func(t *testing.T, c *cluster, p *Poller) {
		var uids []types.UID
		for i := range 1000 {
			uid := types.UID(fmt.Sprint("hanging-", i))
			uids = append(uids, uid)
			c.hanging[string(uid)] = true
		}
		p.Follow(types.NamespacedName{Namespace: "attacker", Name: "job"}, pods(uids...))
		synctest.Wait()
		for i := range 5 {
			other := types.NamespacedName{Namespace: "victim", Name: fmt.Sprint("job-", i)}
			uid := types.UID(fmt.Sprint("victim-", i))
			p.Follow(other, pods(uid))
			synctest.Wait() // the time does not advance
			if got := p.Follow(other, pods(uid)); len(got) != 1 || got[0].Err != nil {
				t.Errorf("the readings of another namespace are %v, want one", got)
			}
			time.Sleep(ReadTimeout / 2)
		}
	})
}

func TestOnlyTheLeaderReads(t *testing.T) {
	run(t, func(t *testing.T, _ *cluster, p *Poller) {
		if !p.NeedLeaderElection() {
			t.Error("the poller reads without leader election")
		}
	})
}
