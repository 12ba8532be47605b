package why

import (
	"fmt"
	"strings"

	"tensorstack.dev/jobs/common/policy"
)

// overdue returns the pods that a message names as overdue. The result is empty if the message names none.
func overdue(message string) string {
	rest, isOverdue := strings.CutPrefix(message, "waiting for overdue ")
	late, _, ok := strings.Cut(rest, " to end")
	if !isOverdue || !ok {
		return ""
	}
	return clean(late)
}

// doAboutOverdue returns the advice about the pods that a message names as overdue. If the first of these pods has
// finalizers and its containers have ended, the advice is about the finalizers. Otherwise, it is about the node.
func (v view) doAboutOverdue(late string) string {
	for _, pod := range v.Pods {
		isFirst := strings.HasPrefix(late+" ", "pod "+pod.Name+" ")
		if keepers := finalizersOf(&pod); isFirst && keepers != "" && !policy.MayRun(&pod) {
			return fmt.Sprintf("The pod still exists because of %s. The program that sets a finalizer must remove it. Ask an "+
				"administrator whether this program runs.", clean(keepers))
		}
	}
	return "The node does not answer, or a webhook rejects the deletion of the pod. Ask an administrator to check the " +
		"node."
}
