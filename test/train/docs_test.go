package train

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/cli/command"
	"tensorstack.dev/jobs/cli/jobs"
	"tensorstack.dev/jobs/test/internal/document"
)

var _ = Describe("The documents", func() {
	It("show what kubectl train plan prints", func(ctx context.Context) {
		follow("docs/train/kubectl-train-plan.md", "Plan a job", func(s document.Step) {
			output, err := typed(ctx, s.Command, filepath.Join(GinkgoT().TempDir(), "nowhere"))
			Expect(output).To(Equal(strings.Join(append(s.Prints, ""), "\n")), "%v", err)
		})
	})

	It("show the same training in the README and on the page about it", func() {
		Expect(stepsOf("docs/train/kubectl-train.md", "Train with a folder of code")).To(
			ContainElements(stepsOf("README.md", "A folder of code")))
	})

	It("show the question after Ctrl-C", func() {
		page, err := os.ReadFile("../../docs/train/kubectl-train.md")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(page)).To(ContainSubstring(strings.TrimSpace(command.Question) + "\n"))
	})

	// There is no kubelet here, so the output of trainings, logs -f and debug is not compared. The end-to-end specs run
	// the commands of the same sections on a cluster that trains, but they do not run for every change.
	DescribeTable("show what kubectl train prints about jobs",
		func(ctx context.Context, file, section string) {
			n := newNamespace(ctx)
			k := n.startKubelet(ctx)
			kubeconfig := n.kubeconfig()
			follow(file, section, func(s document.Step) {
				if waits.MatchString(s.Command) {
					k.endsTraining.Store(true)
				}
				if readsLogs.MatchString(s.Command) {
					Eventually(ctx, func() (string, error) {
						return typed(ctx, "kubectl get training -o jsonpath={.items[*].status.phase}", kubeconfig)
					}).Should(BeElementOf("Succeeded", "Failed"))
					return
				}
				if opensShell.MatchString(s.Command) {
					return
				}
				s.Prints = slices.DeleteFunc(s.Prints, ofTraining.MatchString)
				try := func() error {
					return s.Compare(typed(ctx, s.Command, kubeconfig))
				}
				if s.OnlyReads() {
					Eventually(ctx, try).Should(Succeed())
				} else {
					Expect(try()).To(Succeed())
				}
			})
		},
		Entry("when it trains with a folder", "docs/train/kubectl-train.md", "Train with a folder of code"),
		Entry("when it explains a job", "docs/train/kubectl-train.md", "Why a job does not run, or why it failed"),
		Entry("when it prints logs", "docs/train/kubectl-train.md", "Logs"),
		Entry("when it changes a job", "docs/train/kubectl-train.md", "Change a job"),
		Entry("when it debugs a job", "docs/train/kubectl-train.md", "Debug a job"),
		Entry("when the cluster cannot be used", "docs/train/kubectl-train.md", "If the cluster cannot be used"),
	)
})

var (
	// waits matches commands that end when the training ends.
	waits = regexp.MustCompile(`^kubectl (train run|train logs \S+ -f|wait) ?`)
	// readsLogs and opensShell match commands that need a kubelet.
	readsLogs  = regexp.MustCompile(`^kubectl train logs \S+ -f`)
	opensShell = regexp.MustCompile(`^kubectl train debug `)
	// ofTraining matches the output of the example trainings.
	ofTraining = regexp.MustCompile(`^(rank \d|epoch +\d)`)
)

// stepsOf returns the commands of a section of a document.
func stepsOf(file, section string) []document.Step {
	GinkgoHelper()
	steps, err := document.Steps(filepath.Join("../..", file), section)
	Expect(err).NotTo(HaveOccurred())
	return steps
}

// follow calls a function for each command of a section of a document.
func follow(file, section string, run func(document.Step)) {
	GinkgoHelper()
	for _, s := range stepsOf(file, section) {
		By(s.Command)
		run(s)
	}
}

// typed runs a command at the root of the repository, as a user types it. kubectl is the real one, and its plugin
// kubectl train is this test program.
func typed(ctx context.Context, command, kubeconfig string) (string, error) {
	GinkgoHelper()
	self, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	plugin := fmt.Sprintf("#!/bin/sh\n%s=true exec %q \"$@\"\n", isProgram, self)
	Expect(os.WriteFile(filepath.Join(folder, "kubectl-train"), []byte(plugin), 0o700)).To(Succeed())
	shell := exec.CommandContext(ctx, "bash", "-c", command)
	shell.Dir = "../.."
	shell.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig,
		"PATH="+strings.Join([]string{folder, os.Getenv("KUBEBUILDER_ASSETS"), os.Getenv("PATH")}, ":"))
	output, err := shell.CombinedOutput()
	return string(output), err
}

// kubeconfig writes a kubeconfig whose current context has the namespace, and returns its path.
func (n namespace) kubeconfig() string {
	GinkgoHelper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	config.Contexts[config.CurrentContext].Namespace = string(n)
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	return file
}

// kubelet simulates the scheduler, the kubelet and the garbage collector of a namespace.
type kubelet struct {
	namespace namespace
	// endsTraining is true if the trainings must succeed, and false if they must continue to run. It does not affect the
	// job named failing, in which all pods except the leader fail.
	endsTraining atomic.Bool
}

// startKubelet simulates the scheduler, the kubelet and the garbage collector in the namespace until the end of the
// spec.
func (n namespace) startKubelet(ctx context.Context) *kubelet {
	k := &kubelet{namespace: n}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		wait.UntilWithContext(ctx, k.sync, 50*time.Millisecond)
	}()
	DeferCleanup(func() {
		stop()
		<-stopped
	})
	return k
}

// sync deletes the objects whose job is gone, and does the next step of each pod: to delete it, bind it to a node,
// start it or end it. If a write fails, the next call of sync repeats the write.
func (k *kubelet) sync(ctx context.Context) {
	var pods corev1.PodList
	for _, list := range []client.ObjectList{&pods, &corev1.ConfigMapList{}, &corev1.ServiceList{}} {
		if api.List(ctx, list, client.InNamespace(k.namespace)) != nil {
			return
		}
		_ = meta.EachListItem(list, func(object runtime.Object) error {
			if object := object.(client.Object); k.isOrphan(ctx, object) {
				return api.Delete(ctx, object, client.GracePeriodSeconds(0))
			}
			return nil
		})
	}
	unfinished := 0
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodPending || pod.Status.Phase == corev1.PodRunning {
			unfinished++
		}
	}
	for _, pod := range pods.Items {
		isLeader, fails := strings.HasSuffix(pod.Name, "-0"), strings.HasPrefix(pod.Name, "failing-")
		switch isRunning := pod.Status.Phase == corev1.PodRunning; {
		case pod.DeletionTimestamp != nil:
			_ = api.Delete(ctx, &pod, client.GracePeriodSeconds(0))
		case pod.Spec.NodeName == "":
			binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "gpu-3"}}
			_ = api.SubResource("binding").Create(ctx, &pod, binding)
		case pod.Status.Phase == corev1.PodPending && k.mounts(ctx, &pod):
			startContainers(&pod.Status, pod.Spec.Containers)
			_ = api.Status().Update(ctx, &pod)
		case isRunning && fails && !isLeader:
			endContainers(&pod.Status, pod.Spec.Containers, 1, "ValueError: the data has no labels")
			_ = api.Status().Update(ctx, &pod)
		case isRunning && !fails && k.endsTraining.Load() && (!isLeader || unfinished == 1): // the leader ends last
			endContainers(&pod.Status, pod.Spec.Containers, 0, "")
			_ = api.Status().Update(ctx, &pod)
		}
	}
}

// isOrphan reports whether an object has an owner reference to a job that no longer exists.
func (k *kubelet) isOrphan(ctx context.Context, object client.Object) bool {
	for _, owner := range object.GetOwnerReferences() {
		kind := jobs.KindNamed(owner.Kind)
		if kind == nil {
			continue
		}
		job := kind.New()
		err := api.Get(ctx, k.namespace.key(owner.Name), job)
		if apierrors.IsNotFound(err) || err == nil && job.GetUID() != owner.UID {
			return true
		}
	}
	return false
}

// mounts reports whether the ConfigMaps that a pod mounts exist and can be read. If one is missing, mounts creates
// the event that a kubelet would create.
func (k *kubelet) mounts(ctx context.Context, pod *corev1.Pod) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.ConfigMap == nil {
			continue
		}
		err := api.Get(ctx, k.namespace.key(volume.ConfigMap.Name), &corev1.ConfigMap{})
		if apierrors.IsNotFound(err) {
			_ = api.Create(ctx, &corev1.Event{
				ObjectMeta: metav1.ObjectMeta{Namespace: string(k.namespace), Name: pod.Name + ".mount"},
				InvolvedObject: corev1.ObjectReference{
					APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
				},
				Type: corev1.EventTypeWarning, Reason: "FailedMount", LastTimestamp: metav1.Now(), Count: 1,
				Message: fmt.Sprintf("MountVolume.SetUp failed for volume %q : configmap %q not found",
					volume.Name, volume.ConfigMap.Name),
			})
		}
		if err != nil {
			return false
		}
	}
	return true
}
