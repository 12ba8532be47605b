package explore

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/kit/model"
)

// ownerExplorations returns the small jobs that wait while an object with another owner has a name that they need.
func ownerExplorations() []exploration {
	return []exploration{
		{
			name:     "a job of one replica waits while another owner has one of its names",
			shape:    model.One(model.OnFailure, model.Limit(1)),
			failures: []string{"fails", "is deleted by force"},
			edits:    []edit{takes(model.Pods, "pod"), takes(model.Services, "Service"), pauses, resumes, deletes},
			budget:   spent{failures: 1, edits: 2, crashes: 1}, briefly: 3,
		},
		{
			name:       "a gang of one replica waits while another owner has one of its names",
			shape:      model.InQueue(model.One(model.OnFailure, model.Limit(1))),
			failures:   []string{"is deleted by force"},
			edits:      []edit{takes(model.Pods, "pod"), pauses, resumes},
			queueEdits: []edit{takes(model.PodGroups, "PodGroup"), deletesGroup},
			budget:     spent{failures: 1, edits: 2}, briefly: 3,
		},
	}
}

// takes returns an edit that creates an object with another owner and a name that the job needs.
func takes(of model.Resources, what string) edit {
	return edit{
		name: "creates a " + what + " with a name of the job and another owner",
		may: func(s *state) bool {
			return len(s.live.Objects.Foreign(of)) == 0 && s.live.Objects[keyOfName(of)] == nil
		},
		do: func(m *machine) {
			m.must(func(c *model.Cluster) error { return c.Create(model.Foreign(of, nameOf(of))) })
		},
	}
}

// nameOf returns the name that the job needs for an object of the given resource. For a pod it is the name of the
// leader, and for all other objects the name of the job.
func nameOf(of model.Resources) string {
	if of == model.Pods {
		return model.JobKey.Name + "-worker-0"
	}
	return model.JobKey.Name
}

func keyOfName(of model.Resources) string {
	return model.Key(of.String(), types.NamespacedName{Namespace: model.JobKey.Namespace, Name: nameOf(of)})
}

// ownerActions returns the actions by which the other owner deletes an object that has a name of the job. The
// deletions happen by themselves: otherwise, a job that waits for the name would retry forever and never come to
// rest. The scenarios of package conformance cover names that never become free.
func ownerActions(s *state) []action {
	var actions []action
	for _, of := range []model.Resources{model.Pods, model.Services, model.PodGroups} {
		for _, object := range s.live.Objects.Foreign(of) {
			name := "the other owner deletes its " + of.String()
			actions = append(actions, action{name: name, quiet: clusterWorks, do: func(m *machine) {
				m.remove(object, client.DeleteOptions{})
			}})
		}
	}
	return actions
}
