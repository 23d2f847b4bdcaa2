# Completion of dtc for fish. dtc itself completes the command line, so this is never older than dtc.

function __dtc_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c dtc -f -a '(__dtc_complete)'
