package explore

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/kit/model"
)

// takes is that somebody else creates an object that has a name which the job needs.
func takes(of model.Resources, what string) edit {
	return edit{
		name: "creates a " + what + " of somebody else, by a name of the job",
		may: func(s *state) bool {
			return len(s.live.Objects.Foreign(of)) == 0 && s.live.Objects[keyOfName(of)] == nil
		},
		do: func(m *machine) {
			m.must(func(c *model.Cluster) error { return c.Create(model.Foreign(of, nameOf(of))) })
		},
	}
}

// nameOf returns the name of an object of the job: that of its leader, or of the job itself.
func nameOf(of model.Resources) string {
	if of == model.Pods {
		return model.JobKey.Name + "-worker-0"
	}
	return model.JobKey.Name
}

func keyOfName(of model.Resources) string {
	return model.Key(of.String(), types.NamespacedName{Namespace: model.JobKey.Namespace, Name: nameOf(of)})
}

// ownerActions returns that somebody else deletes what has a name of the job. A job that waits for its name tries again
// and again, and so comes to rest only then. The scenarios have names that are never free.
func ownerActions(s *state) []action {
	var actions []action
	for _, of := range []model.Resources{model.Pods, model.Services, model.PodGroups} {
		for _, object := range s.live.Objects.Foreign(of) {
			name := "somebody else deletes their " + of.String()
			actions = append(actions, action{name: name, quiet: clusterWorks, do: func(m *machine) {
				m.remove(object, client.DeleteOptions{})
			}})
		}
	}
	return actions
}
