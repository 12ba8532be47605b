package preview

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"tensorstack.dev/jobs/cli/jobs"
	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
	"tensorstack.dev/jobs/common/shell"
)

// line is a line of the summary of a pod.
type line struct {
	// mark is "+" if the controller has added or changed what the line shows, and " " otherwise.
	mark, label, text string
}

// lines returns the summary of the pod of a replica. Of the variables of the environment, those that the controller has
// added or changed come first.
func (r Replica) lines(s style) []line {
	template := &corev1.Pod{ObjectMeta: r.Template.ObjectMeta, Spec: r.Template.Spec}
	complete := style{width: s.width, without: s.without} // shortens no texts
	own, lines := complete.describe(template, r.own), complete.describe(r.Pod, r.main)
	for i, l := range lines {
		lines[i].mark = "+"
		if slices.Contains(own, l) {
			lines[i].mark = " "
		}
	}
	if s != complete {
		for i, l := range s.describe(r.Pod, r.main) {
			lines[i].text = l.text
		}
	}
	slices.SortStableFunc(lines[beforeEnvironment:beforeEnvironment+len(r.main.Env)], func(a, b line) int {
		return strings.Compare(b.mark, a.mark) // "+" is greater than " "
	})
	return slices.DeleteFunc(lines, func(l line) bool { return l.text == "" })
}

// beforeEnvironment is the number of lines before the environment: the image, the command and the arguments.
const beforeEnvironment = 3

// describe returns the lines about a pod with the given main container, without marks. In all styles, the same pod has
// the same number of lines. So lines about fields that are not set have an empty text.
func (s style) describe(pod *corev1.Pod, main *corev1.Container) []line {
	var lines []line
	add := func(label, text string) { lines = append(lines, line{label: label, text: text}) }
	add("Image", shown(main.Image))
	add("Command", cmp.Or(s.shellLine(main.Command), "(the entrypoint of the image)"))
	add("Args", s.shellLine(main.Args))
	for _, variable := range main.Env {
		add("Environment", s.variableText(variable))
	}
	for _, from := range main.EnvFrom {
		switch {
		case from.ConfigMapRef != nil:
			add("Environment", "from configMap "+shown(from.ConfigMapRef.Name))
		case from.SecretRef != nil:
			add("Environment", "from secret "+shown(from.SecretRef.Name))
		}
	}
	add("Requests", resourceText(main.Resources.Requests))
	add("Limits", resourceText(main.Resources.Limits))
	for _, port := range main.Ports {
		if port.HostPort != 0 {
			add("Host port", fmt.Sprint(port.HostPort))
		}
	}
	for _, mount := range main.VolumeMounts {
		source := sourceOf(pod.Spec.Volumes, mount.Name)
		if mount.SubPath != "" {
			source = shown(mount.SubPath) + " of " + source
		}
		add("Volumes", shown(mount.MountPath)+" from "+source)
	}
	for _, c := range pod.Spec.InitContainers {
		label := "Init"
		if jobs.IsSidecar(pod, c.Name) {
			label = "Sidecar"
		}
		add(label, s.containerText(c))
	}
	for _, c := range pod.Spec.Containers {
		if c.Name != main.Name {
			add("Container", s.containerText(c))
		}
	}
	add("Scheduler", shown(pod.Spec.SchedulerName))
	for _, gate := range pod.Spec.SchedulingGates {
		add("Gate", shown(gate.Name))
	}
	for _, key := range slices.Sorted(maps.Keys(pod.Spec.NodeSelector)) {
		add("Nodes", shown(key)+"="+shown(pod.Spec.NodeSelector[key]))
	}
	for _, finalizer := range pod.Finalizers {
		add("Finalizer", shown(finalizer))
	}
	return lines
}

// variableText returns an environment variable as text.
func (s style) variableText(variable corev1.EnvVar) string {
	name := shown(variable.Name)
	switch from := variable.ValueFrom; {
	case from == nil:
		return name + "=" + s.shortened(shell.Quote(shown(variable.Value)))
	case from.ConfigMapKeyRef != nil:
		return fmt.Sprintf("%s from key %s of configMap %s", name, shown(from.ConfigMapKeyRef.Key),
			shown(from.ConfigMapKeyRef.Name))
	case from.SecretKeyRef != nil:
		return fmt.Sprintf("%s from key %s of secret %s", name, shown(from.SecretKeyRef.Key),
			shown(from.SecretKeyRef.Name))
	case from.FieldRef != nil:
		return fmt.Sprintf("%s from field %s of the pod", name, shown(from.FieldRef.FieldPath))
	case from.ResourceFieldRef != nil:
		return fmt.Sprintf("%s from resource %s of the container", name, shown(from.ResourceFieldRef.Resource))
	default:
		return name + " from a file"
	}
}

// resourceText returns a list of resources as text.
func resourceText(list corev1.ResourceList) string {
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		texts = append(texts, fmt.Sprintf("%s %s", shown(string(name)), quantity.String()))
	}
	return strings.Join(texts, ", ")
}

// sourceOf returns the source of the volume with the given name, such as "configMap digits".
func sourceOf(volumes []corev1.Volume, name string) string {
	i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == name })
	if i < 0 {
		return "volume " + shown(name)
	}
	content, err := json.Marshal(volumes[i].VolumeSource)
	var sources map[string]map[string]any
	if err != nil || json.Unmarshal(content, &sources) != nil {
		return "volume " + shown(name)
	}
	for kind, source := range sources {
		for _, field := range []string{"name", "claimName", "secretName", "path", "driver", "reference"} {
			if text, ok := source[field].(string); ok {
				return kind + " " + shown(text)
			}
		}
		return kind
	}
	return "volume " + shown(name)
}

// containerText returns the name, the image and the command line of a container.
func (s style) containerText(c corev1.Container) string {
	text := fmt.Sprintf("%s, image %s", shown(c.Name), shown(c.Image))
	if words := s.shellLine(slices.Concat(c.Command, c.Args)); words != "" {
		text += "\n" + words
	}
	return text
}

// isLike reports whether two replicas have the same type and the same summary. Numbers in the summaries, such as
// indices and ports, can differ by the difference of the ranks. The command line of a replica can wait for the host
// names of all other replicas, but not for its own. So isLike ignores the host names of both replicas in the command
// lines.
func (r Replica) isLike(other Replica) bool {
	a, b := r.lines(style{without: other.Pod.Name}), other.lines(style{without: r.Pod.Name})
	if r.Pod.Labels[batchv1beta1.LabelReplicaType] != other.Pod.Labels[batchv1beta1.LabelReplicaType] || len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].mark != b[i].mark || a[i].label != b[i].label || !countsUp(a[i].text, b[i].text, other.Rank-r.Rank) {
			return false
		}
	}
	return true
}
