package preview

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1beta1 "tensorstack.dev/jobs/common/api/batch/v1beta1"
)

// WriteSummary writes a summary of a plan. If consecutive replicas are alike, it describes only the first one.
func (p Plan) WriteSummary(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s in namespace %s\n", p.Job.Kind.Kind, p.Job.GetName(), p.Job.GetNamespace())
	if len(p.Objects) > 0 {
		b.WriteString("\nThe controller creates, in this order:\n")
		writeObjects(&b, p.Objects)
	}
	if len(p.Admitted) > 0 {
		fmt.Fprintf(&b, "and once the %s is admitted:\n", kindName(p.Admission))
		writeObjects(&b, p.Admitted)
	}
	if len(p.Replicas) > 0 {
		b.WriteString("\nThe pods, with + for what the controller adds or changes:\n")
	}
	for rest := p.Replicas; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[0].isLike(rest[n]) {
			n++
		}
		writeReplicas(&b, rest[:n], short)
		rest = rest[n:]
	}
	notes := p.Notes()
	if strings.Contains(b.String(), cut) {
		notes = append(notes, cut+" stands for a part of a long value, which --replica shows.")
	}
	if len(notes) > 0 {
		b.WriteString("\nNotes:\n")
		for _, note := range notes {
			fmt.Fprintf(&b, "  - %s\n", shown(note))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// WriteReplica writes the summary of one replica.
func (p Plan) WriteReplica(w io.Writer, r Replica) error {
	var b strings.Builder
	writeReplicas(&b, []Replica{r}, full)
	_, err := io.WriteString(w, strings.TrimPrefix(b.String(), "\n"))
	return err
}

// writeObjects writes the kinds and the names of objects. The pods of a type share a line.
func writeObjects(b *strings.Builder, objects []client.Object) {
	width := 0
	for _, object := range objects {
		width = max(width, len(kindName(object)))
	}
	for rest := objects; len(rest) > 0; {
		n := 1
		for n < len(rest) && typeOf(rest[0]) != "" && typeOf(rest[0]) == typeOf(rest[n]) {
			n++
		}
		text := rest[0].GetName()
		if n > 1 {
			text = fmt.Sprintf("%s to %s (%d pods)", text, rest[n-1].GetName(), n)
		}
		if secret, ok := rest[0].(*corev1.Secret); ok {
			text += fmt.Sprintf(" (type %s, keys: %s)", secret.Type,
				strings.Join(slices.Sorted(maps.Keys(secret.Data)), ", "))
		}
		fmt.Fprintf(b, "  %-*s  %s\n", width, kindName(rest[0]), shown(text))
		rest = rest[n:]
	}
}

// kindName returns the kind of an object.
func kindName(object client.Object) string {
	_, name, _ := strings.Cut(fmt.Sprintf("%T", object), ".")
	return name
}

// typeOf returns the type of the replica that a pod belongs to. It is empty for an object that is no pod.
func typeOf(object client.Object) string {
	if _, ok := object.(*corev1.Pod); !ok {
		return ""
	}
	return object.GetLabels()[batchv1beta1.LabelReplicaType]
}

// writeReplicas writes the names of replicas that are alike, and the summary of the first one.
func writeReplicas(b *strings.Builder, list []Replica, s style) {
	first, last := list[0], list[len(list)-1]
	roleType := first.Pod.Labels[batchv1beta1.LabelReplicaType]
	switch {
	case len(list) > 1:
		fmt.Fprintf(b, "\n%s to %s: type %s, ranks %d to %d, container %s\n", first.Pod.Name, last.Pod.Name, roleType,
			first.Rank, last.Rank, first.main.Name)
		fmt.Fprintf(b, "    These %d pods differ only in their names, indices and ranks. This is %s:\n",
			len(list), first.Pod.Name)
	case first.Rank == 0:
		fmt.Fprintf(b, "\n%s: type %s, rank 0 (the leader), container %s\n", first.Pod.Name, roleType, first.main.Name)
	default:
		fmt.Fprintf(b, "\n%s: type %s, rank %d, container %s\n", first.Pod.Name, roleType, first.Rank, first.main.Name)
	}
	label := ""
	for _, l := range first.lines(s) {
		name := ""
		if l.label != label {
			name, label = l.label+":", l.label
		}
		for i, text := range strings.Split(l.text, "\n") {
			if i > 0 {
				name = ""
				text = "  " + text
			}
			fmt.Fprintf(b, "  %s %-13s%s\n", l.mark, name, text)
		}
	}
}
