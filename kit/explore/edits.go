package explore

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/kit/model"
)

func (x options) userActions(s *state, edits []edit) []action {
	job := s.live.Objects.Job()
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

// edit is a change that a user can make to the job, or to something that the job depends on, such as its queue.
type edit struct {
	name string
	// may reports whether the user can make the change now. Nil means always.
	may func(*state) bool
	do  func(*machine)
}

var (
	pauses = edit{
		name: "pauses the job", may: func(s *state) bool { return !s.shape.RunMode.Pausing() },
		do: func(m *machine) { m.edit(model.Pause) },
	}
	resumes = edit{
		name: "resumes the job", may: func(s *state) bool { return s.shape.RunMode.Pausing() },
		do: func(m *machine) { m.edit(model.Resume) },
	}
	// resizes changes the field replicas and resumes the job in one update. The CRD allows a change of replicas only
	// while the job is paused.
	resizes = edit{
		name: "reduces the job to one replica and resumes it",
		may: func(s *state) bool {
			return s.shape.RunMode.Pausing() && s.live.Objects.Job().JobStatus().Phase == batchv1beta1.JobPhasePaused
		},
		do: func(m *machine) { m.edit(func(s *model.Shape) { s.Replicas, s.RunMode = 1, nil }) },
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
		name: "deletes the PodGroup", may: func(s *state) bool { return s.live.Objects.PodGroup() != nil },
		do: func(m *machine) { m.remove(m.state.live.Objects.PodGroup(), client.DeleteOptions{}) },
	}
	evicts = edit{
		name: "lets Kueue evict the job", may: func(s *state) bool {
			workload := s.live.Objects.Workload()
			return workload != nil && workload.Status.Admission != nil
		},
		do: func(m *machine) { m.cluster(func(c *model.Cluster) { c.Evict() }) },
	}
	deletesWorkload = edit{
		name: "deletes the Workload", may: func(s *state) bool { return s.live.Objects.Workload() != nil },
		do: func(m *machine) { m.remove(m.state.live.Objects.Workload(), client.DeleteOptions{}) },
	}
	deletes = edit{name: "deletes the job", do: func(m *machine) {
		m.remove(m.state.live.Objects.Job(), client.DeleteOptions{})
	}}

	deletesInForeground = edit{name: "deletes the job in the foreground", do: func(m *machine) {
		m.remove(m.state.live.Objects.Job(), client.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	}}
)

func scales(expected int32) edit {
	return edit{
		name: fmt.Sprintf("scales the job to %d replicas", expected),
		may:  func(s *state) bool { return s.shape.Elastic.Expected() != expected },
		do:   func(m *machine) { m.edit(model.Scale(expected)) },
	}
}

func (m *machine) edit(change func(*model.Shape)) {
	shape := *m.state.shape
	change(&shape)
	m.state.shape = &shape
	m.cluster(func(c *model.Cluster) { c.Edit(m.Kind, shape) })
}

// annotate changes the job in a way that does not enqueue a reconcile.
func annotate(m *machine) {
	m.state.spent.conflicts++
	m.cluster(func(c *model.Cluster) { c.Annotate(c.Live().Job()) })
}
