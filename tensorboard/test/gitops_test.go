package test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"tensorstack.dev/jobs/common/api/tensorboard/v1beta1"
)

// kubectl runs kubectl with all permissions. It returns the output.
func kubectl(ctx context.Context, input string, args ...string) (string, error) {
	GinkgoHelper()
	const name = "test"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: plane.Config.Host, CertificateAuthorityData: plane.Config.CAData,
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{
		ClientCertificateData: plane.Config.CertData, ClientKeyData: plane.Config.KeyData,
	}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	config.CurrentContext = name
	file := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	Expect(clientcmd.WriteToFile(*config, file)).To(Succeed())
	command := exec.CommandContext(ctx, filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+file)
	command.Stdin = strings.NewReader(input)
	output, err := command.CombinedOutput()
	return string(output), err
}

// GitOps tools apply the manifest of a TensorBoard again and again. The entries are the rows of the table in
// ../README.md#suspend-and-gitops.
var _ = DescribeTable("A manifest that is applied again after the controller has suspended its TensorBoard",
	func(ctx context.Context, setting, want string, apply ...string) {
		namespace := newNamespace(ctx)
		content, err := yaml.Marshal(manifest(namespace, remote+setting).Object)
		Expect(err).NotTo(HaveOccurred())
		args := append([]string{"apply", "-f", "-"}, apply...)
		output, err := kubectl(ctx, string(content), args...)
		Expect(err).NotTo(HaveOccurred(), output)

		b := newBoard(ctx)
		tb := get(ctx, &v1beta1.TensorBoard{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "board"}})
		pod := podOf(ctx, tb)
		b.run(ctx, pod, "node-1")
		b.idleFor(25 * time.Hour)
		Eventually(ctx, func() bool { return get(ctx, tb).Spec.Suspend }).Should(BeTrue())
		end(ctx, pod)
		Eventually(ctx, state(ctx, tb)).Should(HaveExactElements("Suspended", "False Culled", "True Culled"))

		output, err = kubectl(ctx, string(content), args...)
		switch want {
		case "is refused":
			Expect(err).To(HaveOccurred())
			Expect(output).To(And(ContainSubstring("conflict"), ContainSubstring(".spec.suspend")))
			Expect(get(ctx, tb).Spec.Suspend).To(BeTrue())
		case "starts it again":
			Expect(err).NotTo(HaveOccurred(), output)
			Expect(get(ctx, tb).Spec.Suspend).To(BeFalse())
		default:
			Expect(err).NotTo(HaveOccurred(), output)
			Expect(get(ctx, tb).Spec.Suspend).To(BeTrue())
		}
	},
	Entry("keeps it suspended without the field, with kubectl apply", "", "keeps it suspended"),
	Entry("keeps it suspended without the field, with server-side apply", "", "keeps it suspended", "--server-side"),
	Entry("keeps it suspended without the field, with forced server-side apply", "", "keeps it suspended",
		"--server-side", "--force-conflicts"),
	Entry("starts it again if it sets the field to false, with kubectl apply", "suspend: false", "starts it again"),
	Entry("is refused if it sets the field to false, with server-side apply", "suspend: false", "is refused",
		"--server-side"),
	Entry("starts it again if it sets the field to false, with forced server-side apply", "suspend: false",
		"starts it again", "--server-side", "--force-conflicts"),
)
