# The process: how it gets its requests, and how it ends.

require "socket"

module Tsubame
  class Runtime
    def initialize(file)
      @listener = UNIXServer.for_fd($stdin.dup.tap { |own| own.autoclose = false }.fileno)
      $stdin.reopen(File::NULL)
      $stdout.reopen($stderr)
      $stdout.sync = true
      @application = Application.new(file)
      @ending = @serving = false
      # At once if it is idle, and otherwise after its request.
      trap("TERM") do
        @ending = true
        exit unless @serving
      end
    end

    def run
      loop do
        socket = @listener.accept
        serve(Connection.new(socket))
        socket.close
      end
    end

    private

    # Serves the requests of a connection until the server closes it.
    def serve(connection)
      loop do
        environment = connection.request
        @serving = true
        goes_on = @application.serve(connection, environment)
        @serving = false
        exit if @ending || !goes_on
      end
    rescue Gone
      @serving = false
      exit if @ending
    end
  end
end

$0 = "rack: #{ARGV[1]}"
Tsubame::Runtime.new(ARGV[1]).run
