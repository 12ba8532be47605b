package convert

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	commonv1 "github.com/kubeflow/common/pkg/apis/common/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// replicas are the replicas of one type.
type replicas struct {
	commonv1.ReplicaSpec

	// role is the name of the type in the result, such as worker.
	role string
	// These are the paths of the type in the manifest and in the result.
	field, result string
	// main is the index of the main container.
	main int
	// policy is the restart policy in the result.
	policy batchv1beta1.RestartPolicy
}

// role is the name of a type of replicas in Kubeflow, and the name of the type in the result.
type role struct{ from, to string }

// mainContainer returns the main container.
func (r *replicas) mainContainer() *corev1.Container { return &r.Template.Spec.Containers[r.main] }

// mainField returns the path of the main container in the manifest. mainResult returns its path in the result.
func (r *replicas) mainField() string { return r.field + r.mainSuffix() }

func (r *replicas) mainResult() string { return r.result + r.mainSuffix() }

func (r *replicas) mainSuffix() string { return fmt.Sprintf(".template.spec.containers[%d]", r.main) }

// replicasOf returns the replicas of each type, in the order of the roles. Like Kubeflow, it ignores the case of the
// types. The parameter main is the name of the main container. If no container has that name, the first one is the
// main container.
func replicasOf(specs replicaSpecs, field, main string, roles []role) ([]*replicas, error) {
	var list []*replicas
	left := maps.Clone(specs)
	for _, role := range roles {
		for _, name := range slices.Sorted(maps.Keys(left)) {
			if !strings.EqualFold(string(name), role.from) {
				continue
			}
			delete(left, name)
			r := &replicas{role: role.to, field: field + "." + string(name)}
			if spec := specs[name]; spec != nil {
				r.ReplicaSpec = *spec.DeepCopy()
			}
			if len(r.Template.Spec.Containers) == 0 {
				return nil, fmt.Errorf("%s.template has no container", r.field)
			}
			r.main = mainOf(r.Template.Spec.Containers, main)
			if at := slices.IndexFunc(list, func(other *replicas) bool { return other.role == role.to }); at >= 0 {
				return nil, fmt.Errorf("%s and %s are the same type: remove one of them", list[at].field, r.field)
			}
			list = append(list, r)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		return nil, fmt.Errorf("%s.%s is a type that Kubeflow does not have", field, name)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no replicas", field)
	}
	return list, nil
}

// mainOf returns the index of the container with a name, or 0 if there is none.
func mainOf(containers []corev1.Container, name string) int {
	return max(0, slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == name }))
}

// setReplicas sets the places of all replicas in the result, and their restart policies. It reports whether any of them
// restart after failures. The parameter "unset" is the default policy of Kubeflow's kind.
func (c *conversion) setReplicas(list []*replicas, unset batchv1beta1.RestartPolicy) (restarts bool) {
	for i, r := range list {
		r.result = fmt.Sprintf("spec.replicaSpecs[%d]", i)
		c.move(r.field, r.result)
		r.policy = c.restartPolicy(r.RestartPolicy, r.field+".restartPolicy", r.result+".restartPolicy", unset,
			batchv1beta1.RestartPolicyNever)
		c.remarkOnRestarts(r, r.policy)
		restarts = restarts || restartsAfterFailure(r.policy)
	}
	return restarts
}

// restartPolicy converts a restart policy. The parameter "unset" is the default of Kubeflow's kind. The parameter
// "here" is the default of the job kind of the result.
func (c *conversion) restartPolicy(
	from commonv1.RestartPolicy, field, result string, unset, here batchv1beta1.RestartPolicy,
) batchv1beta1.RestartPolicy {
	policy := batchv1beta1.RestartPolicy(from)
	switch {
	case policy == "" && unset == here:
	case policy == "":
		policy = unset
		c.byDefault(field, unset, result, "The default here is "+string(here)+".")
	case policy == batchv1beta1.RestartPolicyExitCode:
		c.changed(field, policy, result, "Replicas restart only after the exit codes 130, 137, 138 and 143, and after "+
			"disruptions. Kubeflow restarts them after all codes from 128.")
	}
	return policy
}

// remarkOnRestarts remarks on volumes that lose their files when a replica restarts.
func (c *conversion) remarkOnRestarts(r *replicas, policy batchv1beta1.RestartPolicy) {
	if policy != batchv1beta1.RestartPolicyAlways && policy != batchv1beta1.RestartPolicyOnFailure {
		return // with Never and ExitCode, Kubeflow restarts no container within its pod
	}
	for i, volume := range r.Template.Spec.Volumes {
		if volume.EmptyDir != nil && volume.EmptyDir.Medium != corev1.StorageMediumMemory {
			suffix := fmt.Sprintf(".template.spec.volumes[%d]", i)
			c.changed(r.field+suffix, volume.Name, r.result+suffix, "A restart creates a new pod, so the files in this "+
				"volume are lost. Kubeflow restarts the container in its pod.")
		}
	}
}

// prioritize gives the pods the priority class of the scheduling policy, unless their template has one.
func (c *conversion) prioritize(r *replicas, class string) {
	field := c.policyField("schedulingPolicy") + ".priorityClass"
	spec := &r.Template.Spec
	near := r.result + ".template.spec.priorityClassName"
	switch spec.PriorityClassName {
	case "":
		spec.PriorityClassName = class
		if class != "" {
			c.changed(field, class, near,
				"The class applies to the pods. Within a Queue, scheduler.t9kScheduler.priority orders jobs.")
		}
	case class:
	default:
		if class != "" {
			c.notMapped(field, class, near, "The template has a class of its own.")
		}
	}
}

// groupAnnotations are the annotations of templates that refer to a PodGroup. If gang scheduling is enabled, Kubeflow
// creates this PodGroup.
var groupAnnotations = sets.New("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")

// kubeflowLabels are the labels that training-operator and mpi-operator give to pods.
var kubeflowLabels = regexp.MustCompile(`\btraining\.kubeflow\.org/[-a-z]+`)

// remarkOnTemplate remarks on the texts of a template that depend on the controllers of Kubeflow.
func (c *conversion) remarkOnTemplate(job string, r *replicas, more ...hint) {
	c.remarkOnTexts(r.Template, r.result+".template", append(hintsFor(job), more...), func(path string) string {
		if words := commandWord.FindStringIndex(path); words != nil { // words can have moved, so name only the container
			path = path[:words[0]]
		}
		return r.field + ".template" + path
	})
	for _, name := range slices.Sorted(maps.Keys(r.Template.Annotations)) {
		if groupAnnotations.Has(name) {
			suffix := ".template.metadata.annotations[" + name + "]"
			c.changed(r.field+suffix, r.Template.Annotations[name], r.result+suffix,
				"No controller here creates this PodGroup. Gang scheduling needs scheduler.t9kScheduler.queue.")
		}
	}
}

// hintsFor returns the hints that apply to the texts in jobs of all kinds.
func hintsFor(job string) []hint {
	return []hint{
		{pattern: kubeflowLabels, text: "Pods do not get the labels of Kubeflow. " + ourLabels},
		{
			pattern: regexp.MustCompile(`\b` + regexp.QuoteMeta(job) + `-(master|worker|chief|ps|evaluator|launcher)-\d+\b`),
			text:    "The host name of a replica is <job>-<type>-<index>.<job>.",
		},
	}
}

// ourLabels describes the labels that pods have instead of the labels of Kubeflow.
const ourLabels = "They have batch.tensorstack.dev/job-name, batch.tensorstack.dev/replica-type and " +
	"batch.tensorstack.dev/replica-index."

// remarkOnTexts remarks on the texts of a value that match a hint. The parameter result is the path of the value in
// the result. The function field maps the path of a text, relative to the value, to the path of this text in the
// manifest.
func (c *conversion) remarkOnTexts(value any, result string, hints []hint, field func(path string) string) {
	seen := sets.New[string]()
	for text := range textsOf(value) {
		for _, h := range hints {
			for _, found := range h.pattern.FindAllString(text.value, -1) {
				found = strings.Trim(found, "$({)}")
				if h.except.Has(found) {
					continue
				}
				if !seen.Has(found + h.text) {
					seen.Insert(found + h.text)
					c.changed(field(text.path), found, result+text.path, h.text)
				}
				break // one remark for each text and hint is enough
			}
		}
	}
}

// commandWord matches the end of a path, if the path leads to a word of a command or of args.
var commandWord = regexp.MustCompile(`\.(command|args)\[\d+\]$`)

// hint is a remark on texts that match a pattern.
type hint struct {
	pattern *regexp.Regexp
	// except are the matches that need no remark.
	except sets.Set[string]
	text   string
}

// textAt is a string within an object: the value of a field, or a key of a map.
type textAt struct{ path, value string }

// textsOf iterates over the strings within a value, in the order of their paths.
func textsOf(value any) iter.Seq[textAt] {
	return func(yield func(textAt) bool) {
		content, err := json.Marshal(value)
		var generic any
		if err != nil || json.Unmarshal(content, &generic) != nil {
			return
		}
		visit(generic, "", yield)
	}
}

// visit yields the strings within a value of JSON. It returns false if the iteration has ended.
func visit(value any, path string, yield func(textAt) bool) bool {
	switch value := value.(type) {
	case string:
		return yield(textAt{path, value})
	case []any:
		for i, item := range value {
			if !visit(item, path+"["+strconv.Itoa(i)+"]", yield) {
				return false
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			at := path + "." + key
			if strings.ContainsAny(key, "./") {
				at = path + "[" + key + "]"
			}
			if !yield(textAt{at, key}) || !visit(value[key], at, yield) {
				return false
			}
		}
	}
	return true
}

// kubeflowReferences matches texts in objects of other kinds that refer to objects of Kubeflow or to their pods.
var kubeflowReferences = regexp.MustCompile(`\b([a-z]+\.)?kubeflow\.org(/[-a-z0-9]+)?`)

// remarksOnOther returns the remarks on the references to Kubeflow in an object of another kind. The conversion does
// not change this object.
func remarksOnOther(object any) []Remark {
	c := &conversion{}
	seen := sets.New[string]()
	for text := range textsOf(object) {
		found := kubeflowReferences.FindString(text.value)
		if found == "" || seen.Has(found) {
			continue
		}
		seen.Insert(found)
		advice := "Converted jobs are in the group batch.tensorstack.dev."
		if kubeflowLabels.MatchString(found) {
			advice = "The pods of converted jobs do not have this label. " + ourLabels
		}
		c.changed(strings.TrimPrefix(text.path, "."), found, "", "This object is unchanged. "+advice)
	}
	return c.remarks
}
