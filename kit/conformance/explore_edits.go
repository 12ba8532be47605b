package conformance

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

func (x options) userActions(s *state, edits []edit) []action {
	job := s.live.job()
	if job == nil || job.GetDeletionTimestamp() != nil || !x.left(s, s.spent.edits, x.budget.edits) {
		return nil
	}
	var actions []action
	for _, e := range edits {
		if e.may != nil && !e.may(s) {
			continue
		}
		actions = append(actions, action{name: "the user " + e.name, do: func(m *machine) {
			m.state.spent.edits++
			m.state.unclear = true
			e.do(m)
		}})
	}
	return actions
}

// edit is something that the user may do to the job.
type edit struct {
	name string
	// may says of which jobs; nil is of all.
	may func(*state) bool
	do  func(*machine)
}

var (
	pauses = edit{
		name: "pauses the job", may: func(s *state) bool { return !s.shape.RunMode.Pausing() },
		do: func(m *machine) { m.edit(func(s *Shape) { *s = pausing(*s) }) },
	}
	resumes = edit{
		name: "resumes the job", may: func(s *state) bool { return s.shape.RunMode.Pausing() },
		do: func(m *machine) { m.edit(func(s *Shape) { s.RunMode = nil }) },
	}
	// resizes is allowed by the CRD only while the job is paused, and says so.
	resizes = edit{
		name: "gives the job one replica, and resumes it",
		may: func(s *state) bool {
			return s.shape.RunMode.Pausing() && s.live.job().JobStatus().Phase == batchv1beta1.JobPhasePaused
		},
		do: func(m *machine) { m.edit(func(s *Shape) { s.Replicas, s.RunMode = 1, nil }) },
	}
	closesQueue = edit{
		name: "closes the queue", may: func(s *state) bool { return !s.closed },
		do: func(m *machine) { m.state.closed = true; m.considerGroup() },
	}
	opensQueue = edit{
		name: "opens the queue", may: func(s *state) bool { return s.closed },
		do: func(m *machine) { m.state.closed = false; m.considerGroup() },
	}
	deletesGroup = edit{
		name: "deletes the PodGroup", may: func(s *state) bool { return s.live.podGroup() != nil },
		do: func(m *machine) { m.remove(m.state.live.podGroup(), client.DeleteOptions{}) },
	}
	deletes = edit{name: "deletes the job", do: func(m *machine) { m.remove(m.state.live.job(), client.DeleteOptions{}) }}

	deletesInForeground = edit{name: "deletes the job in the foreground", do: func(m *machine) {
		m.remove(m.state.live.job(), client.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	}}
)

func scales(expected int32) edit {
	return edit{
		name: fmt.Sprintf("scales the job to %d", expected), may: func(s *state) bool { return s.shape.Elastic.Expected() != expected },
		do: func(m *machine) {
			m.edit(func(s *Shape) {
				elastic := *s.Elastic
				elastic.ExpectedReplicas = &expected
				s.Elastic = &elastic
			})
		},
	}
}

func (m *machine) edit(change func(*Shape)) {
	shape := *m.state.shape
	change(&shape)
	m.state.shape = &shape
	m.must(func(c *Cluster) error {
		c.put(c.keyOf(c.live().job()), m.kind.edited(c.live().job(), shape))
		return nil
	})
}

// annotate changes the job in a way that does not wake the controller.
func annotate(m *machine) {
	m.state.spent.conflicts++
	m.must(func(c *Cluster) error {
		c.put(c.keyOf(c.live().job()), copyOf(c.live().job()))
		return nil
	})
}
