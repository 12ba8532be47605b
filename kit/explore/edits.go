package explore

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
	deletes = edit{name: "deletes the job", do: func(m *machine) {
		m.remove(m.state.live.Objects.Job(), client.DeleteOptions{})
	}}

	deletesInForeground = edit{name: "deletes the job in the foreground", do: func(m *machine) {
		m.remove(m.state.live.Objects.Job(), client.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)})
	}}
)

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
