package command

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/jobs"
	kueuev1beta2 "tensorstack.dev/jobs/common/api/kueue/v1beta2"
	schedulerv1beta1 "tensorstack.dev/jobs/common/api/scheduler/v1beta1"
)

// completionTimeout limits how long a shell waits for completions.
const completionTimeout = 3 * time.Second

// complete returns a completion that calls the function find with the cluster, the arguments of the command, and the
// typed text. It completes those results that begin with the typed text. If the kubeconfig is unusable, it completes
// nothing. If the cluster does not respond, the requests of find fail after completionTimeout.
func (e *environment) complete(
	find func(ctx context.Context, c *cluster, args []string, typed string) []cobra.Completion,
) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		timeout := completionTimeout.String()
		e.flags.Timeout = &timeout
		c, err := e.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
		defer cancel()
		return beginningWith(typed, find(ctx, c, args, typed)), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeJobs completes the argument JOB of a command. JOB is the only argument of most commands, so nothing is
// completed after it. The shell shows the kind and the phase of each job.
func completeJobs(ctx context.Context, c *cluster, args []string, typed string) []cobra.Completion {
	if len(args) > 0 {
		return nil
	}
	found, _ := jobs.List(ctx, c, jobs.Kinds, client.InNamespace(c.namespace)) // after an error, some jobs are missing
	return completionsOf(found, typed)
}

// completionsOf returns the completions of the jobs whose names begin with the typed text. The kind precedes a name
// if the user has typed a kind, or if jobs of several kinds have the name.
func completionsOf(found []jobs.Job, typed string) []cobra.Completion {
	count := map[string]int{}
	for _, job := range found {
		count[job.GetName()]++
	}
	kind := ""
	if prefix, _, ok := strings.Cut(typed, "/"); ok {
		kind = prefix
	}
	var completions []cobra.Completion
	for _, job := range found {
		name := job.GetName()
		switch {
		case kind != "":
			name = kind + "/" + name
			if jobs.KindNamed(kind) != job.Kind {
				continue
			}
		case count[name] > 1:
			name = job.Ref()
		}
		if strings.HasPrefix(name, typed) {
			description := strings.TrimSpace(job.Kind.Kind + " " + string(job.JobStatus().Phase))
			completions = append(completions, cobra.CompletionWithDesc(name, description))
		}
	}
	return completions
}

// completeContexts completes the flag --context.
func (e *environment) completeContexts(
	_ *cobra.Command, _ []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	config, err := e.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return beginningWith(typed, slices.Collect(maps.Keys(config.Contexts))), cobra.ShellCompDirectiveNoFileComp
}

// completeReplicas completes the flag --replica with the replicas of the job that the argument JOB names.
func completeReplicas(ctx context.Context, c *cluster, args []string, _ string) []cobra.Completion {
	if len(args) == 0 {
		return nil
	}
	job, err := c.find(ctx, args[0])
	if err != nil {
		return nil
	}
	var names []string
	for _, replica := range job.Replicas() {
		names = append(names, job.ShortName(replica.Name))
	}
	return names
}

// completeNames returns a completion with the names of the objects of a kind. If the kind is namespaced, these are
// only the names of objects in the user's namespace.
func (e *environment) completeNames(kind schema.GroupVersionKind) cobra.CompletionFunc {
	return e.complete(func(ctx context.Context, c *cluster, _ []string, _ string) []cobra.Completion {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		_ = c.List(ctx, list, client.InNamespace(c.namespace)) // after an error, the list is empty
		var names []string
		for _, object := range list.Items {
			names = append(names, object.Name)
		}
		return names
	})
}

// beginningWith returns the names that begin with the typed text.
func beginningWith(typed string, names []string) []cobra.Completion {
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, typed) })
}

// takesFile has the flags whose values are files or folders.
var takesFile = map[string]bool{
	"kubeconfig": true, "cache-dir": true, "certificate-authority": true, "client-certificate": true,
	"client-key": true,
}

// addCompletions adds completions to all flags that have none yet. It omits the flags in takesFile, since a shell
// completes files for flags without completions.
func (e *environment) addCompletions(root *cobra.Command) {
	claims := e.completeNames(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	known := map[string]cobra.CompletionFunc{
		"context": e.completeContexts, "replica": e.complete(completeReplicas), "claim": claims, "code-claim": claims,
		"namespace":     e.completeNames(corev1.SchemeGroupVersion.WithKind("Namespace")),
		"env-from":      e.completeNames(corev1.SchemeGroupVersion.WithKind("Secret")),
		"storage-class": e.completeNames(storagev1.SchemeGroupVersion.WithKind("StorageClass")),
		"queue":         e.completeNames(schedulerv1beta1.GroupVersion.WithKind("Queue")),
		"local-queue":   e.completeNames(kueuev1beta2.GroupVersion.WithKind("LocalQueue")),
	}
	for _, cmd := range append(root.Commands(), root) {
		cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			if _, has := cmd.GetFlagCompletionFunc(flag.Name); has || takesFile[flag.Name] {
				return
			}
			complete := known[flag.Name]
			if complete == nil {
				complete = cobra.NoFileCompletions
			}
			_ = cmd.RegisterFlagCompletionFunc(flag.Name, complete) // cannot fail: the flag exists and has no completions yet
		})
	}
}
