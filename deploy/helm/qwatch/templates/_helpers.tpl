{{- define "qwatch.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "qwatch.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "qwatch.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "qwatch.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "qwatch.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "qwatch.image" -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag }}{{- end -}}
{{- end -}}

{{/* Labels that select: they never change between versions. */}}
{{- define "qwatch.selector" -}}
app.kubernetes.io/name: {{ include "qwatch.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "qwatch.labels" -}}
{{ include "qwatch.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The address of the watcher's service. */}}
{{- define "qwatch.host" -}}
{{ include "qwatch.fullname" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{/* A duration of the configuration, such as 1m30s or 7d, in seconds, rounded up. */}}
{{- define "qwatch.seconds" -}}
{{- $ms := 0.0 -}}
{{- $units := dict "ms" 1.0 "s" 1000.0 "m" 60000.0 "h" 3600000.0 "d" 86400000.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h|d)" (toString .) -1 -}}
{{- $number := regexFind "^[0-9.]+" . -}}
{{- $ms = addf $ms (mulf (float64 $number) (get $units (trimPrefix $number .))) -}}
{{- end -}}
{{- ceil (divf $ms 1000.0) | int64 -}}
{{- end -}}

{{/* A consumer group with the defaults filled in: (list root name). */}}
{{- define "qwatch.group" -}}
{{- $root := index . 0 -}}
{{- $given := get $root.Values.consumers (index . 1) | default dict -}}
{{- mergeOverwrite (deepCopy $root.Values.consumerDefaults) (deepCopy $given) | toJson -}}
{{- end -}}

{{- define "qwatch.groupName" -}}
{{ printf "%s-%s" (include "qwatch.fullname" (index . 0)) (index . 1) | trunc 63 | trimSuffix "-" }}
{{- end -}}

{{/* The advanced section of a scaling. drain never asks for fewer replicas than are busy, so that these need not be kept for
the five minutes of Kubernetes' default, as `qwatch keda generate` has it too. */}}
{{- define "qwatch.advanced" -}}
{{- $out := dict -}}
{{- if eq .strategy "drain" -}}
{{- $out = dict "horizontalPodAutoscalerConfig" (dict "behavior" (dict "scaleDown" (dict "stabilizationWindowSeconds" 15))) -}}
{{- end -}}
{{- mergeOverwrite $out (deepCopy .advanced) | toJson -}}
{{- end -}}

{{/* What stands between account and queue in the names of an object's triggers, which KEDA wants to differ, as `qwatch keda
generate` has it: one hyphen, or two for all where one lets a queue b-c of account a and the queue c of account a-b be one. */}}
{{- define "qwatch.triggerHyphen" -}}
{{- $seen := dict -}}{{- $hyphen := "-" -}}
{{- range . -}}
{{- $name := printf "%s-%s" .account .name -}}
{{- if hasKey $seen $name -}}{{- $hyphen = "--" -}}{{- end -}}
{{- $_ := set $seen $name true -}}
{{- end -}}
{{- $hyphen -}}
{{- end -}}

{{/* Not empty when KEDA is to ask by TLS: (list root scaling). */}}
{{- define "qwatch.grpcTLS" -}}
{{- $says := (index . 1).enableTLS -}}
{{- $server := get (index . 0).Values.config "server" | default dict -}}
{{- if ternary (get $server "grpcTLS") $says (kindIs "invalid" $says) -}}true{{- end -}}
{{- end -}}

{{/* The secrets that stand in a text instead of ${NAME}, by what precedes them; empty when there are none. */}}
{{- define "qwatch.plain" -}}
{{- $found := list -}}
{{- range regexFindAll "(?i)\\b(AccountKey|SharedAccessSignature|sig)\\s*=[^;&\"\\\\]*" . -1 -}}
{{- if not (regexMatch "=\\s*(\\$\\{[^{}]+\\})?\\s*$" .) -}}{{- $found = append $found (printf "%s=" (regexFind "^[A-Za-z]+" .)) -}}{{- end -}}
{{- end -}}
{{- $found | uniq | join ", " -}}
{{- end -}}

{{/* The parameters of a TriggerAuthentication that KEDA's metrics-api scaler wants for an authMode. */}}
{{- define "qwatch.authParameters" -}}
{{- $of := dict "basic" "username and password" "bearer" "bearerToken" "tls" "ca, cert and key" -}}
{{- $all := list -}}
{{- range splitList "," . -}}{{- $all = append $all (get $of .) -}}{{- end -}}
{{- join ", " $all -}}
{{- end -}}

{{/* Every list of variables that the values have, by where it stands in them. */}}
{{- define "qwatch.environments" -}}
{{- $root := . -}}
{{- $out := dict "env" .Values.env "watcher.env" (get .Values.watcher "env" | default list) -}}
{{- range $name, $_ := .Values.consumers -}}
{{- $group := include "qwatch.group" (list $root $name) | fromJson -}}
{{- $_ := set $out (printf "consumers.%s.env" $name) (get $group "env" | default list) -}}
{{- range $i, $sidecar := $group.sidecars -}}
{{- $_ := set $out (printf "consumers.%s.sidecars[%d].env" $name $i) (get $sidecar "env" | default list) -}}
{{- end -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}

{{/* Why the value of a variable of the environment is a secret in plain text; empty when it is none that is known by its form. */}}
{{- define "qwatch.plainVariable" -}}
{{- /* $(NAME) is filled in by the kubelet, from a variable that is there before it */ -}}
{{- $value := regexReplaceAll "\\$\\([A-Za-z_][A-Za-z0-9_]*\\)" (toString .) "${NAME}" -}}
{{- $plain := include "qwatch.plain" $value -}}
{{- if $plain -}}a secret after {{ $plain -}}
{{- else if regexMatch "^[A-Za-z0-9+/]{86}==$" $value -}}what looks like an account key
{{- else if regexMatch "-----BEGIN [A-Z ]*PRIVATE KEY-----" $value -}}a private key
{{- else if regexMatch "(?i)(^|[;?&\\s])(password|pwd|passwd)\\s*=\\s*[^;&\\s]" (regexReplaceAll "\\$\\{NAME\\}" $value "") -}}a password
{{- else if regexMatch "^[A-Za-z][A-Za-z0-9+.-]*://[^/@\\s:]*:[^/@\\s]+@" (regexReplaceAll "\\$\\{NAME\\}" $value "") -}}a password in an address
{{- end -}}
{{- end -}}

{{/* The variables of a list whose names say that their literal values are secrets. */}}
{{- define "qwatch.likelySecrets" -}}
{{- $found := list -}}
{{- range . -}}
{{- $value := toString (get . "value" | default "") -}}
{{- if and $value (regexMatch "(?i)(^|_)(PASSWORD|PASSWD|PWD|SECRET|TOKEN|APIKEY|API_KEY|ACCESS_KEY|ACCOUNT_KEY|STORAGE_KEY|PRIVATE_KEY|SAS|CREDENTIALS?)$" .name) (not (regexMatch "^\\$\\([^()]+\\)$" $value)) -}}
{{- $found = append $found .name -}}
{{- end -}}
{{- end -}}
{{- $found | uniq | join ", " -}}
{{- end -}}
