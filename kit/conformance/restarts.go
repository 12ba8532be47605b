package conformance

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

// restartsTable is what users read. It is the test's table, too, so that it cannot be wrong.
//
//go:embed restarts.md
var restartsTable string

// misfortunes are the rows of the tables: what befalls a replica.
var misfortunes = map[string]func(index int) step{
	"exit 0":                           func(i int) step { return exits(i, 0) },
	"exit 1":                           func(i int) step { return exits(i, 1) },
	"exit 137":                         func(i int) step { return exits(i, 137) },
	"exit 143":                         func(i int) step { return exits(i, 143) },
	"out of memory":                    ranOutOfMemory,
	"over its ephemeral-storage limit": ranOutOfStorage,
	"preempted":                        preempted,
	"deleted by hand":                  deleted,
	"node shut down":                   nodeShutDown,
	"node lost":                        losesNode,
	"rejected by its node":             rejected,
}

// testRestarts checks every cell of the tables.
func testRestarts(t *testing.T, k model.Kind) {
	t.Helper()
	cells := 0
	all := tables(restartsTable)
	for heading, table := range all {
		heading, ok := strings.CutPrefix(heading, "Scope ")
		if !ok {
			continue
		}
		scope, who, _ := strings.Cut(heading, ", ")
		index := 1
		if who == "the leader" {
			index = 0
		}
		for row, columns := range table {
			for policy, cell := range columns {
				cells++
				for _, restarted := range []bool{false, true} {
					c := restartCase{
						scope: batchv1beta1.RestartScope(scope), policy: batchv1beta1.RestartPolicy(policy), index: index,
						misfortune: row, failure: all["What `status.failures` says of it"][row], cell: cell, crashing: restarted,
					}
					t.Run(c.name(), func(t *testing.T) {
						t.Parallel()
						c.check(t, k)
					})
				}
			}
		}
	}
	if want := 2 * 2 * 4 * len(misfortunes); cells != want {
		t.Errorf("the tables have %d cells, want %d", cells, want)
	}
}

// restartCase is one cell of the tables.
type restartCase struct {
	scope      batchv1beta1.RestartScope
	policy     batchv1beta1.RestartPolicy
	index      int
	misfortune string
	// failure is what the status says of it, by field.
	failure map[string]string
	cell    string
	// crashing says that the controller is restarted after each of its writes.
	crashing bool
}

func (c restartCase) name() string {
	who, controller := "another replica", "a controller that runs on"
	if c.index == 0 {
		who = "the leader"
	}
	if c.crashing {
		controller = "a controller that crashes after each write"
	}
	return fmt.Sprintf("scope %s/%s/%s/%s/%s", c.scope, who, c.policy, c.misfortune, controller)
}

// counts are what is exact about restarts.
type counts struct {
	Phase    batchv1beta1.JobPhase
	Backoff  int32
	Restarts int32
	// ReplicaFailure is the condition of the name.
	ReplicaFailure bool
	// Failures that were recorded, newest first: replica, reason, exit code, and whether it counted.
	Failures []string
}

func (w *world) counts() counts {
	status := w.status()
	c := counts{
		Phase: status.Phase, Backoff: status.BackoffCount,
		ReplicaFailure: meta.IsStatusConditionTrue(status.Conditions, batchv1beta1.ConditionReplicaFailure),
	}
	for _, task := range status.Tasks {
		c.Restarts += task.RestartCount
	}
	for _, f := range status.Failures {
		code := ""
		if f.ExitCode != nil {
			code = fmt.Sprint(*f.ExitCode)
		}
		c.Failures = append(c.Failures, fmt.Sprintf("%s %s %s %t", f.Replica, f.Reason, code, f.Counted))
	}
	return c
}

// check lets the misfortune befall a job that has one counted restart, until nothing more can come of it.
func (c restartCase) check(t *testing.T, k model.Kind) {
	t.Helper()
	w := newWorld(t, k)
	w.crashing = c.crashing
	w.process.crashing = c.crashing
	w.do(created(two(c.policy, c.scope, limit(1))))
	want := counts{Phase: batchv1beta1.JobPhasePending}
	// A node rejects a pod that has not started; everything else befalls one that runs.
	starting := c.misfortune == "rejected by its node"
	failed := func() {
		entry := fmt.Sprintf("%s %s %s %s", w.podName(c.index), c.failure["reason"], c.failure["exitCode"],
			c.failure["counted"])
		want.Failures = append([]string{entry}, want.Failures...)
		want.ReplicaFailure = true
	}
	restarts := int32(1)
	if c.scope == scopeJob {
		restarts = 2
	}
	befall := func() { w.do(misfortunes[c.misfortune](c.index)) }
	expect := func(when string) {
		t.Helper()
		if diff := gocmp.Diff(want, w.counts()); diff != "" {
			t.Fatalf("unexpected counts %s (-want +got):\n%s", when, diff)
		}
	}
	// ends lets the pods go, so that the job finishes.
	ends := func(phase batchv1beta1.JobPhase, when string) {
		t.Helper()
		w.do(passes(2 * time.Minute))
		want.Phase = phase
		expect(when)
	}
	leaderSucceeds := func() {
		t.Helper()
		w.do(exits(0, 0))
		ends(batchv1beta1.JobPhaseSucceeded, "when the leader has succeeded")
	}
	// replaced lets the replacement run, for which it may have to wait: for the delay of the restart, and for the pod of a
	// lost node to be deleted by force.
	replaced := func() {
		t.Helper()
		w.do(passes(2 * time.Minute))
		if starting {
			return
		}
		w.do(run)
		want.Phase, want.ReplicaFailure = batchv1beta1.JobPhaseRunning, false
		expect("when the replacement runs")
	}

	if !starting {
		w.do(run)
	}
	befall()
	switch c.cell {
	case "ends":
		ends(batchv1beta1.JobPhaseSucceeded, "at the end")
	case "done":
		want.Phase = batchv1beta1.JobPhaseRunning
		expect("when the replica is done")
		leaderSucceeds()
	case "again":
		for range 3 {
			want.Restarts++
			want.Phase = batchv1beta1.JobPhasePending
			expect("when the replica has succeeded")
			replaced()
			befall()
		}
	case "free":
		for range 3 {
			want.Restarts += restarts
			want.Phase = batchv1beta1.JobPhasePending
			failed()
			expect("after the misfortune")
			replaced()
			befall()
		}
	case "counted":
		want.Backoff, want.Restarts = 1, restarts
		failed()
		expect("after the misfortune")
		replaced()
		befall()
		failed()
		if c.scope == scopeReplica && c.index != 0 {
			want.Phase = batchv1beta1.JobPhaseRunning
			expect("when the limit is used up")
			leaderSucceeds()
			return
		}
		ends(batchv1beta1.JobPhaseFailed, "when the limit is used up")
	case "fails":
		failed()
		ends(batchv1beta1.JobPhaseFailed, "at the end")
	case "stays":
		w.do(run)
		want.Phase = batchv1beta1.JobPhaseRunning
		failed()
		expect("after the misfortune")
		leaderSucceeds()
	default:
		t.Fatalf("the table says %q, which its legend does not know", c.cell)
	}
}

// tables returns the tables of a Markdown text by the heading that they follow, each by row and column.
func tables(text string) map[string]map[string]map[string]string {
	found := map[string]map[string]map[string]string{}
	heading := ""
	var columns []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if after, ok := strings.CutPrefix(line, "#"); ok {
			heading, columns = strings.TrimLeft(after, "# "), nil
			found[heading] = map[string]map[string]string{}
		}
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "| ---") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if columns == nil {
			columns = cells[1:]
			continue
		}
		row := map[string]string{}
		for i, column := range columns {
			row[column] = cells[i+1]
		}
		found[heading][cells[0]] = row
	}
	return found
}
