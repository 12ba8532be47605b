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

// completeJobs completes the argument JOB of a command. JOB is the only argument of most commands, so nothing is
// completed after it. The shell shows the kind and the phase of each job.
func (e *environment) completeJobs(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var completions []cobra.Completion
	e.quickly(cmd.Context(), func(ctx context.Context, c *cluster) {
		found, _ := jobs.List(ctx, c, jobs.Kinds, client.InNamespace(c.namespace)) // after an error, some jobs are missing
		completions = completionsOf(found, typed)
	})
	return completions, cobra.ShellCompDirectiveNoFileComp
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

// quickly calls the function act with the cluster, unless the kubeconfig is unusable. If the cluster does not
// respond, the requests that act sends fail after completionTimeout.
func (e *environment) quickly(ctx context.Context, act func(context.Context, *cluster)) {
	timeout := completionTimeout.String()
	e.flags.Timeout = &timeout
	c, err := e.connect()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, completionTimeout)
	defer cancel()
	act(ctx, c)
}

// completeReplicas completes the flag --replica with the replicas of the job that the argument JOB names.
func (e *environment) completeReplicas(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []string
	e.quickly(cmd.Context(), func(ctx context.Context, c *cluster) {
		if len(args) == 0 {
			return
		}
		job, err := c.find(ctx, args[0])
		if err != nil {
			return
		}
		for _, replica := range job.Replicas() {
			names = append(names, job.ShortName(replica.Name))
		}
	})
	return beginningWith(typed, names), cobra.ShellCompDirectiveNoFileComp
}

// completeNames returns a function that completes the names of the objects of a kind. If the kind is namespaced, the
// function completes only the names of objects in the user's namespace.
func (e *environment) completeNames(kind schema.GroupVersionKind) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		var names []string
		e.quickly(cmd.Context(), func(ctx context.Context, c *cluster) {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind)
			if c.List(ctx, list, client.InNamespace(c.namespace)) != nil {
				return // the shell completes nothing
			}
			for _, object := range list.Items {
				names = append(names, object.Name)
			}
		})
		return beginningWith(typed, names), cobra.ShellCompDirectiveNoFileComp
	}
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
		"context": e.completeContexts, "replica": e.completeReplicas, "claim": claims, "code-claim": claims,
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
